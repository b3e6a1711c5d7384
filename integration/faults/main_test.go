package faults

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	goredis "github.com/redis/go-redis/v9"
)

// ratelimitdPath is the binary that TestMain built; it does not change after.
var ratelimitdPath string

// TestMain builds ratelimitd once.
func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	goredis.SetLogger(silence{})
	dir, err := os.MkdirTemp("", "ratelimitd-faults")
	if err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	ratelimitdPath = filepath.Join(dir, "ratelimitd")
	args := []string{"build", "-o", ratelimitdPath}
	if raceDetector {
		args = append(args, "-race")
	}
	build := exec.Command("go", append(args, "../../cmd/ratelimitd")...)
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "faults: building ratelimitd: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// silence takes the place of the log of the tests' own Redis clients, which prints a line for each try to reach a server that is away.
type silence struct{}

// Printf prints nothing.
func (silence) Printf(context.Context, string, ...any) {}
