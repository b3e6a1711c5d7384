//go:build !race

package faults

// raceDetector says that the tests, and so the ratelimitd they start, run with the race detector.
const raceDetector = false
