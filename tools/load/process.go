package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// process is a server that was started for a measurement.
type process struct {
	name    string
	address string // where it listens
	cmd     *exec.Cmd
	log     bytes.Buffer  // read it when exited is closed
	exited  chan struct{} // closed when it has
}

// startPatience is how long a server may take until it listens.
const startPatience = 20 * time.Second

// begin starts a process and does not wait for it to listen.
func begin(name, address string, environment []string, command ...string) (*process, error) {
	p := &process{name: name, address: address, exited: make(chan struct{})}
	p.cmd = exec.Command(command[0], command[1:]...)
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}, environment...)
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // Pdeathsig is about the thread that starts it
		defer runtime.UnlockOSThread()
		defer close(p.exited)
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait() // it is told to end, or says why in its log
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

// listens waits until the process listens.
func (p *process) listens(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	for {
		if nc, err := (&net.Dialer{}).DialContext(ctx, "tcp", p.address); err == nil {
			nc.Close()
			return nil
		}
		select {
		case <-p.exited:
			return fmt.Errorf("%s ended:\n%s", p.name, &p.log)
		case <-ctx.Done():
			return fmt.Errorf("%s does not listen at %s: %w", p.name, p.address, ctx.Err())
		case <-time.After(time.Millisecond):
		}
	}
}

// end ends the process and waits until it is gone.
func (p *process) end() {
	_ = p.cmd.Process.Signal(syscall.SIGKILL)
	<-p.exited
}

// freeAddresses returns n loopback addresses at which nothing listened a moment
// ago.
func freeAddresses(n int) ([]string, error) {
	addresses := make([]string, n)
	for i := range addresses {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		addresses[i] = l.Addr().String()
	}
	return addresses, nil
}

// time returns the processor's time, of user and of system, that the process
// has taken. It is what ps shows, in nanoseconds.
func (p *process) time() (time.Duration, error) {
	const scheduled = 2 // CPUCLOCK_SCHED, of all threads; see clock_getcpuclockid(3)
	return clock(int32(^p.cmd.Process.Pid)<<3 | scheduled)
}

// ownTime is the processor's time that this process has taken.
func ownTime() time.Duration {
	t, _ := clock(unix.CLOCK_PROCESS_CPUTIME_ID) // which every process has
	return t
}

func clock(id int32) (time.Duration, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(id, &t); err != nil {
		return 0, os.NewSyscallError("clock_gettime", err)
	}
	return time.Duration(t.Nano()), nil
}

// resident returns the memory of the process that is in use, in MiB.
func (p *process) resident() (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, found := strings.CutPrefix(line, "VmRSS:"); found {
			kib, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 64)
			return kib / 1024, err
		}
	}
	return 0, errors.New("no VmRSS in " + string(text))
}
