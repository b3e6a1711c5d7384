package main

import (
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/credentials"

	"github.com/ratelimitd/ratelimitd/internal/programtest"
	"github.com/ratelimitd/ratelimitd/internal/redistest"
	"github.com/ratelimitd/ratelimitd/pkg/settings"
)

func onSocket(path string) func(*settings.Settings) {
	return func(s *settings.Settings) { s.GRPCAddress = settings.Address("unix:" + path) }
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// stale leaves what a program leaves that is killed.
func stale(t *testing.T, path string) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	_ = l.Close()
}

// TestGRPCOnUnixSocket: however the path is written, calls are answered, the log
// tells where, and nothing is left.
func TestGRPCOnUnixSocket(t *testing.T) {
	for name, row := range map[string]struct {
		written func(dir string) string
		before  func(t *testing.T, path string)
	}{
		"absolute":    {written: func(dir string) string { return dir + "/grpc.sock" }},
		"with //":     {written: func(dir string) string { return "//" + dir + "/grpc.sock" }},
		"relative":    {written: func(string) string { return "grpc.sock" }},
		"stale":       {written: func(string) string { return "grpc.sock" }, before: stale},
		"stale again": {written: func(dir string) string { return dir + "/grpc.sock" }, before: stale},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			t.Chdir(dir)
			if row.before != nil {
				row.before(t, "grpc.sock")
			}
			p := start(t, onSocket(row.written(dir)))
			if err := askOn(t, p.dial(t)); err != nil {
				t.Error(err)
			}
			if at := shown(p.GRPC); !strings.Contains(p.log.String(), "grpc="+at) || !strings.HasPrefix(at, "unix:") {
				t.Errorf("the log does not tell of %s: %s", at, p.log)
			}
			if err := p.stop(); err != nil || exists("grpc.sock") {
				t.Errorf("stopped with %v, and the file is there: %v", err, exists("grpc.sock"))
			}
		})
	}
}

// TestUnixSocketOverTLS asks for the certificates of any other connection.
func TestUnixSocketOverTLS(t *testing.T) {
	files, path := redistest.NewCertificates(t, t.TempDir()), filepath.Join(t.TempDir(), "grpc.sock")
	p := start(t, onSocket(path), func(s *settings.Settings) {
		s.GRPCTLSCertFile, s.GRPCTLSKeyFile, s.GRPCTLSClientCAFile = files.ServerCert, files.ServerKey, files.CA
	})
	if _, err := ask(t, p, credentials.NewTLS(files.Client)); err != nil {
		t.Error(err)
	}
	bare := files.Client.Clone()
	bare.Certificates = nil
	if _, err := ask(t, p, credentials.NewTLS(bare)); err == nil {
		t.Error("answered without a certificate")
	}
}

// TestUnixSocketsThatCannotBe stop the start, and stay as they are.
func TestUnixSocketsThatCannotBe(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	other := start(t, onSocket("taken.sock"))
	write(t, "file.sock", "precious")
	if err := os.Symlink("taken.sock", "link.sock"); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"taken.sock":  "address already in use; another program listens there, or set another address",
		"file.sock":   "there is a file that is no socket, and it stays; remove it, or set another path",
		"link.sock":   "there is a file that is no socket, and it stays; remove it, or set another path",
		"no/dir.sock": "bind: no such file or directory; its directory has to be there",
	} {
		s := settings.Default()
		s.GRPCAddress, s.HTTPAddress, s.AdminAddress = settings.Address("unix:"+path), "127.0.0.1:0", "off"
		err := (&Main{Settings: s, LogTo: &programtest.Journal{}}).Run(t.Context())
		if err == nil || err.Error() != "grpc_address: cannot listen on unix:"+path+": "+want {
			t.Errorf("%s: got %v", path, err)
		}
	}
	if err := askOn(t, other.dial(t)); err != nil {
		t.Errorf("the one that was there: %v", err)
	}
	if text, err := os.ReadFile("file.sock"); string(text) != "precious" || !exists("link.sock") {
		t.Errorf("the files are not as they were: %q, %v", text, err)
	}
}

// TestUnixSocketOfAnother is not removed by the one that stops.
func TestUnixSocketOfAnother(t *testing.T) {
	path := filepath.Join(t.TempDir(), "grpc.sock")
	first := start(t, onSocket(path))
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	second := start(t, onSocket(path))
	if err := first.stop(); err != nil {
		t.Error(err)
	}
	if info, err := os.Lstat(path); err != nil || info.Mode().Type() != fs.ModeSocket {
		t.Errorf("the socket of the second is gone: %v", err)
	}
	if err := askOn(t, second.dial(t)); err != nil {
		t.Error(err)
	}
}
