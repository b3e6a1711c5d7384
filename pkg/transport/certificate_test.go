package transport

import (
	"crypto/tls"
	"testing"

	"github.com/ratelimitd/ratelimitd/internal/redistest"
)

// certificate returns a certificate for 127.0.0.1.
func certificate(t testing.TB) tls.Certificate {
	t.Helper()
	files := redistest.NewCertificates(t, t.TempDir())
	pair, err := tls.LoadX509KeyPair(files.ServerCert, files.ServerKey)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}
