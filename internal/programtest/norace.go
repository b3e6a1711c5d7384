//go:build !race

package programtest

// Race says that the tests have the race detector.
const Race = false
