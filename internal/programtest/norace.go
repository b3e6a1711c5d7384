//go:build !race

package programtest

// Race is the flag of go build with which ratelimitd has the race detector if
// the tests have it.
const Race = "-race=false"
