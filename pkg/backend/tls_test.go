package backend

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/ratelimitd/ratelimitd/internal/certificates"
	"github.com/ratelimitd/ratelimitd/internal/redistest"
	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// copyFiles copies the files of a client into a directory, one after the other.
func copyFiles(t *testing.T, c *redistest.Certificates, dir string) certificates.Files {
	t.Helper()
	to := func(path string) string {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		at := filepath.Join(dir, filepath.Base(path))
		if err := os.WriteFile(at, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return at
	}
	return certificates.Files{CA: to(c.CA), Cert: to(c.ClientCert), Key: to(c.ClientKey)}
}

// Redis comes back with certificates of another authority, and new files say so.
func TestRedisCertificatesAreReplaced(t *testing.T) {
	first, dir := redistest.Start(t, redistest.Options{TLS: true}), t.TempDir()
	r, _ := openRedis(t, first.URL(), func(o *RedisOptions) { o.TLS.Files = copyFiles(t, first.Certificates, dir) })
	l := limitOf(t, "fixed_window", 100, aLongTime)
	allowed := func() bool { return ask1(t, r, "k", l, 1).Outcome == algorithm.Allowed }
	if !allowed() {
		t.Fatal("not allowed at first")
	}
	first.Kill()
	second := redistest.Start(t, redistest.Options{TLS: true, Port: first.Port})
	if allowed() {
		t.Error("allowed by a server that the files do not trust")
	}
	copyFiles(t, second.Certificates, dir)
	await(t, "the new files are in use", allowed)
}

// A server with a certificate for another host is talked to, if so it is said.
func TestRedisCertificateForAnyName(t *testing.T) {
	s := redistest.Start(t, redistest.Options{TLS: true})
	r, _ := openRedis(t, s.URL(), func(o *RedisOptions) {
		o.TLS = TLS{Files: copyFiles(t, s.Certificates, t.TempDir()), ServerName: "other.example", AnyName: true}
	})
	if d := ask1(t, r, "k", limitOf(t, "fixed_window", 5, aLongTime), 1); d.Outcome != algorithm.Allowed {
		t.Error(d.Outcome, d.Err)
	}
}
