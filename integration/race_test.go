//go:build race

package integration

// raceDetector says that the tests, and so the ratelimitd they start, run with the race detector.
const raceDetector = true
