package programtest

import (
	"fmt"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// Process is a program that was started. It ends with the test binary at the
// latest, if that dies.
type Process struct {
	Cmd   *exec.Cmd     // its ProcessState says how it ended, when it has
	Log   *Journal      // what it writes
	Ended chan struct{} // closed when it has ended
}

// Run starts a program.
func Run(cmd *exec.Cmd) (*Process, error) {
	p := &Process{Cmd: cmd, Log: &Journal{}, Ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = p.Log, p.Log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error, 1)
	go func() {
		// Pdeathsig follows the thread that started the program, so this one is
		// kept for as long as it runs.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.Ended)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended stands in ProcessState
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return p, nil
}

// Start starts a program that is killed at the end of the test. If the test has
// failed, the end of its log is shown.
func Start(t testing.TB, cmd *exec.Cmd) *Process {
	t.Helper()
	p, err := Run(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("log of %s:\n%s", cmd.Path, p.Log.Tail(40))
		}
	})
	return p
}

// Running reports whether the program has not ended yet.
func (p *Process) Running() bool {
	select {
	case <-p.Ended:
		return false
	default:
		return true
	}
}

// Signal sends a signal, unless the program has ended.
func (p *Process) Signal(s syscall.Signal) {
	if p.Running() {
		_ = p.Cmd.Process.Signal(s) // it may have ended just now
	}
}

// Kill ends the program at once.
func (p *Process) Kill() {
	p.Signal(syscall.SIGKILL)
	<-p.Ended
}

// End sends SIGTERM and reports whether the program has ended in time.
func (p *Process) End(within time.Duration) bool {
	p.Signal(syscall.SIGTERM)
	select {
	case <-p.Ended:
		return true
	case <-time.After(within):
		return false
	}
}

// Terminate sends SIGTERM and wants the program to end in time and in order.
func (p *Process) Terminate(t testing.TB, within time.Duration) {
	t.Helper()
	switch {
	case !p.Running():
		t.Fatalf("%s has ended before: %v", p.Cmd.Path, p.Cmd.ProcessState)
	case !p.End(within):
		t.Fatalf("%s still runs %v after SIGTERM", p.Cmd.Path, within)
	case !p.Cmd.ProcessState.Success():
		t.Fatalf("%s ended with %v after SIGTERM", p.Cmd.Path, p.Cmd.ProcessState)
	}
}
