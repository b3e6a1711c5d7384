package programtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// Main builds ratelimitd with these flags in a directory of its own, sets path to
// it, runs the tests and returns their exit code. It is for TestMain.
func Main(m *testing.M, path *string, flags ...string) int {
	dir, err := os.MkdirTemp("", "ratelimitd")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	*path = filepath.Join(dir, "ratelimitd")
	args := slices.Concat([]string{"build", "-trimpath", "-o", *path}, flags, []string{"github.com/ratelimitd/ratelimitd/cmd/ratelimitd"})
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building ratelimitd: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}
