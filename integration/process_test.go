package integration

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is a program that a test started. It ends with the test at the latest, and with the test binary if that dies.
type process struct {
	name  string
	cmd   *exec.Cmd
	log   *journal
	ended chan struct{} // closed when the program has ended
}

// startProcess starts a program with the given environment and nothing of this process's own but PATH.
// When the test fails, the end of the program's log is shown.
func startProcess(t *testing.T, name string, env []string, path string, args ...string) *process {
	t.Helper()
	p := &process{name: name, log: &journal{}, ended: make(chan struct{})}
	p.cmd = exec.Command(path, args...)
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, env...)
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error, 1)
	go func() {
		// Pdeathsig follows the thread that started the program, so this one is kept for as long as it runs.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.ended)
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait() // how it ended stands in cmd.ProcessState
		}
	}()
	if err := <-started; err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("log of %s:\n%s", p.name, p.log.tail(40))
		}
	})
	return p
}

// running says whether the program has not ended yet.
func (p *process) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// kill ends the program at once.
func (p *process) kill() {
	if p.running() {
		_ = p.cmd.Process.Kill() // it may have ended just now
	}
	<-p.ended
}

// terminate sends SIGTERM and waits for the program to end by itself with status 0.
func (p *process) terminate(t *testing.T, within time.Duration) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatalf("SIGTERM to %s: %v", p.name, err)
	}
	select {
	case <-p.ended:
	case <-time.After(within):
		t.Fatalf("%s still runs %v after SIGTERM", p.name, within)
	}
	if !p.cmd.ProcessState.Success() {
		t.Fatalf("%s ended with %v after SIGTERM", p.name, p.cmd.ProcessState)
	}
}

// journal keeps what a program writes. Safe for concurrent use.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

// Write appends to the journal.
func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

// tail returns the last n lines.
func (j *journal) tail(n int) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	lines := strings.Split(strings.TrimSuffix(j.text.String(), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// freeAddress returns a loopback address that nothing listens on. Its port lies below those that the kernel gives to
// outgoing connections, so that none of these takes it while a server restarts.
func freeAddress(t *testing.T) string {
	t.Helper()
	for range 100 {
		address := fmt.Sprintf("127.0.0.1:%d", 12000+rand.IntN(18000))
		if l, err := net.Listen("tcp", address); err == nil {
			l.Close()
			return address
		}
	}
	t.Fatal("found no free port in 100 tries")
	return ""
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
