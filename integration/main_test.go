package integration

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/ratelimitd/ratelimitd/internal/programtest"
)

// Relative to this folder, in which `go test` runs the tests.
const (
	envoyPath   = "../.tools/envoy-1.40.0" // fetched by make; the version stands in tools/envoy.txt
	deployedDir = "../deploy/envoy"
)

// ratelimitdPath is the binary that TestMain built; it does not change after.
var ratelimitdPath string

// TestMain builds ratelimitd once. A missing piece fails the run: nothing is skipped.
func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if _, err := os.Stat(envoyPath); err != nil {
		fmt.Fprintln(os.Stderr, "integration: Envoy is not there; run `make tools` first:", err)
		return 1
	}
	if _, err := exec.LookPath("redis-server"); err != nil {
		fmt.Fprintln(os.Stderr, "integration: Redis is not there; run `apt-get install redis-server` first:", err)
		return 1
	}
	return programtest.Main(m, &ratelimitdPath, programtest.Race)
}
