package main

import (
	"os"
	"strings"
	"testing"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/ratelimitd/ratelimitd/internal/redistest"
	"github.com/ratelimitd/ratelimitd/pkg/settings"
)

// ask asks once over a new connection, which it returns.
func ask(t *testing.T, p *program, c credentials.TransportCredentials) (*grpc.ClientConn, error) {
	t.Helper()
	conn, err := grpc.NewClient(shown(p.GRPC), grpc.WithTransportCredentials(c))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn, askOn(t, conn)
}

func askOn(t *testing.T, conn *grpc.ClientConn) error {
	_, err := rlsv3.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), request("t", "a", "b"))
	return err
}

func overTLS(t *testing.T, san string) (*program, *redistest.Certificates) {
	files := redistest.NewCertificates(t, t.TempDir())
	return start(t, func(s *settings.Settings) {
		s.GRPCTLSCertFile, s.GRPCTLSKeyFile = files.ServerCert, files.ServerKey
		s.GRPCTLSClientCAFile, s.GRPCTLSClientSAN = files.CA, san
	}), files
}

// TestGRPCOverTLS asks for a certificate of the authority, and for TLS.
func TestGRPCOverTLS(t *testing.T) {
	p, files := overTLS(t, "localhost")
	if _, err := ask(t, p, credentials.NewTLS(files.Client)); err != nil {
		t.Errorf("with a certificate: %v", err)
	}
	bare, stranger := files.Client.Clone(), files.Client.Clone()
	bare.Certificates = nil
	stranger.Certificates = redistest.NewCertificates(t, t.TempDir()).Client.Certificates
	for name, c := range map[string]credentials.TransportCredentials{
		"without a certificate": credentials.NewTLS(bare), "with one of another authority": credentials.NewTLS(stranger), "without TLS": insecure.NewCredentials(),
	} {
		if _, err := ask(t, p, c); status.Code(err) != codes.Unavailable {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestGRPCClientsOfAnotherName are refused, though the authority is right.
func TestGRPCClientsOfAnotherName(t *testing.T) {
	p, files := overTLS(t, "envoy.example")
	if _, err := ask(t, p, credentials.NewTLS(files.Client)); status.Code(err) != codes.Unavailable {
		t.Errorf("got %v", err)
	}
}

// TestGRPCCertificatesAreRenewed: new connections see the new files, those that
// are open go on, and bad files change nothing.
func TestGRPCCertificatesAreRenewed(t *testing.T) {
	p, files := overTLS(t, "")
	open, err := ask(t, p, credentials.NewTLS(files.Client))
	if err != nil {
		t.Fatal(err)
	}
	write(t, files.ServerCert, "half a certificate")
	if _, err := ask(t, p, credentials.NewTLS(files.Client)); err != nil {
		t.Errorf("while a file is bad: %v", err)
	}
	if !strings.Contains(p.log.String(), "the certificates that were last good stay in use") {
		t.Errorf("the log does not tell: %s", p.log.String())
	}

	renewed := redistest.NewCertificates(t, t.TempDir())
	for from, to := range map[string]string{renewed.ServerCert: files.ServerCert, renewed.ServerKey: files.ServerKey, renewed.CA: files.CA} {
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := ask(t, p, credentials.NewTLS(renewed.Client)); err != nil {
		t.Errorf("with a certificate of the new authority: %v", err)
	}
	old := renewed.Client.Clone()
	old.Certificates = files.Client.Certificates
	if _, err := ask(t, p, credentials.NewTLS(old)); status.Code(err) != codes.Unavailable {
		t.Errorf("with a certificate of the old authority: %v", err)
	}
	if err := askOn(t, open); err != nil {
		t.Errorf("on the connection of before: %v", err)
	}
}
