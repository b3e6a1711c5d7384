// Package programtest builds ratelimitd for tests, and starts it and other
// programs so that they end with the test, whatever ends the test.
package programtest
