package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"

	"github.com/ratelimitd/ratelimitd/pkg/settings"
)

// maxAdminConnections is how many clients of the admin pages there may be.
const maxAdminConnections = 64

// adminListener adds TLS to the listener of the admin pages, if the settings
// ask for it. Certificates are renewed while the program runs, so their files
// are read for each connection, of which there are few.
func adminListener(l net.Listener, s *settings.Settings) (net.Listener, error) {
	if s.AdminTLSCertFile == "" {
		return l, nil
	}
	if _, err := adminTLS(s); err != nil {
		return nil, err
	}
	return tls.NewListener(l, &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return adminTLS(s) },
	}), nil
}

// adminTLS reads the files.
func adminTLS(s *settings.Settings) (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(s.AdminTLSCertFile, s.AdminTLSKeyFile)
	if err != nil {
		return nil, fmt.Errorf("admin_tls_cert_file, admin_tls_key_file: %w", err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	if s.AdminTLSClientCAFile == "" {
		return config, nil
	}
	text, err := os.ReadFile(s.AdminTLSClientCAFile)
	if err != nil {
		return nil, fmt.Errorf("admin_tls_client_ca_file: %w", err)
	}
	config.ClientCAs, config.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
	if !config.ClientCAs.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("admin_tls_client_ca_file: %s holds no certificate", s.AdminTLSClientCAFile)
	}
	return config, nil
}
