package redistest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ratelimitd/ratelimitd/internal/programtest"
)

// patience bounds every wait for a server. A loaded machine needs some of it,
// an idle one a few milliseconds.
const patience = 20 * time.Second

// process is one server, which can be ended and started again with the
// same configuration. Its methods are for one goroutine at a time, but for signal
// and alive.
type process struct {
	binary string
	args   []string
	now    atomic.Pointer[programtest.Process] // nil when it was never started
}

// binary returns the path of a program, redis-server or memcached, or fails the
// test.
func binary(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%[1]s is not installed: apt-get install %[1]s", name)
	}
	return path
}

// start begins the process.
func (p *process) start() error {
	now, err := programtest.Run(exec.Command(p.binary, p.args...))
	if err == nil {
		p.now.Store(now)
	}
	return err
}

// signal sends a signal to the process if it lives.
func (p *process) signal(s syscall.Signal) {
	if now := p.now.Load(); now != nil {
		now.Signal(s)
	}
}

// kill ends the process at once and waits until it is gone. It is safe to
// repeat.
func (p *process) kill() {
	if now := p.now.Load(); now != nil {
		now.Kill()
	}
}

func (p *process) alive() bool {
	now := p.now.Load()
	return now != nil && now.Running()
}

// log returns what the process has printed.
func (p *process) log() string { return p.now.Load().Log.String() }

// pid is its number.
func (p *process) pid() int { return p.now.Load().Cmd.Process.Pid }

// tempDir is a short-named folder, since the path of a unix socket may have at
// most 107 bytes, which t.TempDir exceeds for a long test name.
func tempDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "redistest")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// writeConfig writes a configuration file of the given lines.
func writeConfig(t testing.TB, dir, name string, lines []string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// waitFor polls a condition until it holds, and fails the test with what when
// it does not in time. Conditions are cheap: it polls every few milliseconds.
func waitFor(t testing.TB, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for wait := time.Millisecond; !condition(); wait = min(2*wait, 20*time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v in vain: %s", patience, what)
		}
		time.Sleep(wait)
	}
}
