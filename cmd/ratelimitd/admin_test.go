package main

import (
	"crypto/tls"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/ratelimitd/ratelimitd/internal/programtest"
	"github.com/ratelimitd/ratelimitd/internal/redistest"
	"github.com/ratelimitd/ratelimitd/pkg/settings"
)

// TestAdminPagesOverTLS asks for a certificate and for a token, and shows the
// certificate that its file holds at the time.
func TestAdminPagesOverTLS(t *testing.T) {
	dir := t.TempDir()
	files := redistest.NewCertificates(t, dir)
	p := start(t, func(s *settings.Settings) {
		s.AdminTLSCertFile, s.AdminTLSKeyFile, s.AdminTLSClientCAFile = files.ServerCert, files.ServerKey, files.CA
		s.AdminToken = "correct-horse-battery"
	})
	get := func(config *tls.Config, token string) (int, *tls.ConnectionState, error) {
		transport := &http.Transport{TLSClientConfig: config}
		defer transport.CloseIdleConnections()
		r, err := http.NewRequest("GET", "https://"+p.Admin.String()+"/status", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		response, err := transport.RoundTrip(r)
		if err != nil {
			return 0, nil, err
		}
		response.Body.Close()
		return response.StatusCode, response.TLS, nil
	}
	code, first, err := get(files.Client, "correct-horse-battery")
	if err != nil || code != 200 {
		t.Fatalf("with certificate and token: %d, %v", code, err)
	}
	if code, _, err := get(files.Client, "correct-horse-batterx"); err != nil || code != 401 {
		t.Errorf("with a wrong token: %d, %v", code, err)
	}
	bare := files.Client.Clone()
	bare.Certificates = nil
	if code, _, err := get(bare, "correct-horse-battery"); err == nil {
		t.Errorf("without a certificate: %d", code)
	}
	if response, err := http.Get("http://" + p.Admin.String() + "/status"); err == nil {
		response.Body.Close()
		if response.StatusCode != 400 {
			t.Errorf("without TLS: %s", response.Status)
		}
	}

	renewed := redistest.NewCertificates(t, t.TempDir())
	for from, to := range map[string]string{renewed.ServerCert: files.ServerCert, renewed.ServerKey: files.ServerKey, renewed.CA: files.CA} {
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	code, second, err := get(renewed.Client, "correct-horse-battery")
	if err != nil || code != 200 || second.PeerCertificates[0].Equal(first.PeerCertificates[0]) {
		t.Errorf("after the files were replaced: %d, %v", code, err)
	}
	if _, text := page(t, "GET", p.HTTP.String()+"/metrics", ""); strings.Contains(text, "correct-horse") || strings.Contains(p.log.String(), "correct-horse") {
		t.Error("the token is shown")
	}
}

// TestAdminPagesWithBadCertificates do not start.
func TestAdminPagesWithBadCertificates(t *testing.T) {
	files := redistest.NewCertificates(t, t.TempDir())
	for name, change := range map[string]func(*settings.Settings){
		"admin_tls_cert_file, admin_tls_key_file: " + files.ServerCert + " and " + files.ClientKey + " are no certificate and its key": func(s *settings.Settings) { s.AdminTLSKeyFile = files.ClientKey },
		"admin_tls_client_ca_file: " + files.ServerKey + " holds no certificate":                                                       func(s *settings.Settings) { s.AdminTLSClientCAFile = files.ServerKey },
	} {
		s := settings.Default()
		s.GRPCAddress, s.HTTPAddress, s.AdminAddress = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
		s.AdminTLSCertFile, s.AdminTLSKeyFile = files.ServerCert, files.ServerKey
		change(s)
		if err := (&Main{Settings: s, LogTo: &programtest.Journal{}}).Run(t.Context()); err == nil || !strings.HasPrefix(err.Error(), name) {
			t.Errorf("got %v, want %s", err, name)
		}
	}
}
