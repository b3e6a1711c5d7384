package main

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// listenUnix opens a unix socket. A file that is left of a program which was
// killed is removed, and nothing else. Who may connect is as the umask says.
func listenUnix(path string) (net.Listener, error) {
	l, err := net.Listen("unix", path)
	if errors.Is(err, syscall.EADDRINUSE) {
		if err := removeStale(path); err != nil {
			return nil, err
		}
		l, err = net.Listen("unix", path)
	}
	if err != nil {
		return nil, err
	}
	info, err := os.Lstat(path)
	if err != nil {
		_ = l.Close()
		return nil, err
	}
	listener := l.(*net.UnixListener)
	listener.SetUnlinkOnClose(false)
	return &unixListener{UnixListener: listener, path: path, info: info}, nil
}

// staleWait is how long a program that listens may take to take a connection.
const staleWait = time.Second

// removeStale removes a socket that nobody listens on. The error is that
// somebody does, or that it is no socket.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return errors.New("there is a file that is no socket, and it stays; remove it, or set another path")
	}
	conn, err := net.DialTimeout("unix", path, staleWait)
	switch {
	case err == nil:
		_ = conn.Close()
		return syscall.EADDRINUSE
	case !errors.Is(err, syscall.ECONNREFUSED):
		return err // it may be that somebody listens
	}
	return os.Remove(path)
}

// unixListener removes its file when it is closed, unless another program has
// put its own there.
type unixListener struct {
	*net.UnixListener

	path string
	info os.FileInfo
	once sync.Once
	err  error
}

// Close implements [net.Listener].
func (l *unixListener) Close() error {
	l.once.Do(func() {
		if info, err := os.Lstat(l.path); err == nil && os.SameFile(info, l.info) {
			_ = os.Remove(l.path) // before it is closed, so that nobody takes it for a stale one
		}
		l.err = l.UnixListener.Close()
	})
	return l.err
}
