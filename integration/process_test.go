package integration

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/ratelimitd/ratelimitd/internal/programtest"
)

// startProcess starts a program with the given environment and nothing of this process's own but PATH.
func startProcess(t *testing.T, env []string, path string, args ...string) *programtest.Process {
	t.Helper()
	cmd := exec.Command(path, args...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, env...)
	return programtest.Start(t, cmd)
}

// waitFor waits until the condition holds, and fails the test when it does not within the given time.
func waitFor(t *testing.T, within time.Duration, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if holds() {
			return
		}
	}
	t.Fatalf("waited %v in vain for %s", within, what)
}

// awayFromBoundary waits, if need be, until the clock is not within the last tenth of a window, so that a test that counts
// in a fixed window does not see it begin anew.
func awayFromBoundary(t *testing.T, window time.Duration) {
	t.Helper()
	if left := window - time.Duration(time.Now().UnixNano())%window; left < min(window/10, 30*time.Second) {
		t.Logf("waiting %v for the next window", left)
		time.Sleep(left + 20*time.Millisecond)
	}
}
