package faults

import (
	"context"
	"os"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/ratelimitd/ratelimitd/internal/programtest"
)

// ratelimitdPath is the binary that TestMain built; it does not change after.
var ratelimitdPath string

// TestMain builds ratelimitd once.
func TestMain(m *testing.M) {
	goredis.SetLogger(silence{})
	os.Exit(programtest.Main(m, &ratelimitdPath, programtest.Race))
}

// silence takes the place of the log of the tests' own Redis clients, which prints a line for each try to reach a server that is away.
type silence struct{}

// Printf prints nothing.
func (silence) Printf(context.Context, string, ...any) {}
