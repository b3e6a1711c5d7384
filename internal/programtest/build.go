package programtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Main builds ratelimitd in a directory of its own, with the race detector or as
// deploy/k8s/Dockerfile does, sets path to it, runs the tests and returns their
// exit code. It is for TestMain.
func Main(m *testing.M, path *string, race bool) int {
	dir, err := os.MkdirTemp("", "ratelimitd")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	*path = filepath.Join(dir, "ratelimitd")
	flag, cgo := "-trimpath", "0" // always the same, so that packages are compiled once
	if race {
		flag, cgo = "-race", "1"
	}
	build := exec.Command("go", "build", flag, "-o", *path, "github.com/ratelimitd/ratelimitd/cmd/ratelimitd")
	build.Env = append(os.Environ(), "CGO_ENABLED="+cgo)
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building ratelimitd: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}
