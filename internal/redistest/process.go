package redistest

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience bounds every wait for a server. A loaded machine needs some of it,
// an idle one a few milliseconds.
const patience = 20 * time.Second

// process is one server, which can be ended and started again with the
// same configuration. Its methods are for one goroutine at a time.
type process struct {
	binary string
	args   []string

	mu     sync.Mutex // protects what follows
	pid    int        // 0 when there is none
	exited chan struct{}
	output *lockedBuffer
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

// start begins the process. The thread that starts a child must outlive it,
// since Pdeathsig follows the thread: so one goroutine keeps a thread for it.
func (p *process) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	started := make(chan error, 1)
	p.exited = make(chan struct{})
	p.output = &lockedBuffer{}
	cmd := exec.Command(p.binary, p.args...)
	cmd.Stdout, cmd.Stderr = p.output, p.output
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	go func(exited chan struct{}) {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(exited)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // it is always killed: how it ended says nothing
		}
	}(p.exited)
	if err := <-started; err != nil {
		return fmt.Errorf("start %s: %w", p.binary, err)
	}
	p.pid = cmd.Process.Pid
	return nil
}

// signal sends a signal to the process if it lives.
func (p *process) signal(s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pid != 0 && !p.gone() {
		_ = syscall.Kill(p.pid, s)
	}
}

// kill ends the process at once and waits until it is gone. It is safe to
// repeat.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	p.mu.Lock()
	exited := p.exited
	p.mu.Unlock()
	if exited != nil {
		<-exited
	}
}

// gone reports whether the process has ended. p.mu is held.
func (p *process) gone() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

func (p *process) alive() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pid != 0 && !p.gone()
}

// log returns what the process has printed.
func (p *process) log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.output.String()
}

// lockedBuffer keeps the end of what a process prints.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.buf.Len() > 1<<16 {
		b.buf.Reset()
	}
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// freePorts returns n different ports that were free a moment ago. All are
// held until all are found.
func freePorts(t testing.TB, n int) []int {
	t.Helper()
	ports := make([]int, n)
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatalf("find a free port: %v", err)
		}
		defer l.Close()
		ports[i] = l.Addr().(*net.TCPAddr).Port
	}
	return ports
}

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
