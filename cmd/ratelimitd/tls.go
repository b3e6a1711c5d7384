package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"

	"github.com/ratelimitd/ratelimitd/pkg/settings"
)

// certificates are the files of a socket that speaks TLS. They are renewed
// while the program runs, so they are read for each connection, of which there
// are few; while they are bad, or half replaced, the last good ones serve.
type certificates struct {
	prefix        string // of the names of the settings
	cert, key, ca string // paths; no cert: no TLS
	san           string // a DNS name that clients' certificates must have; "": any
	protocols     []string
	log           *slog.Logger
	mu            sync.Mutex
	good          *tls.Config // guarded by mu, as is complaint
	complaint     string      // what was last logged; "": the files are good
}

func adminCertificates(s *settings.Settings, log *slog.Logger) *certificates {
	return &certificates{
		prefix: "admin_tls_", cert: s.AdminTLSCertFile, key: s.AdminTLSKeyFile, ca: s.AdminTLSClientCAFile, log: log,
	}
}

func grpcCertificates(s *settings.Settings, log *slog.Logger) *certificates {
	return &certificates{
		prefix: "grpc_tls_", cert: s.GRPCTLSCertFile, key: s.GRPCTLSKeyFile, ca: s.GRPCTLSClientCAFile, san: s.GRPCTLSClientSAN,
		protocols: []string{"h2"}, log: log,
	}
}

// listener adds TLS to a listener, if there is a certificate. The error is that
// of files which are bad at the start.
func (c *certificates) listener(l net.Listener) (net.Listener, error) {
	if c.cert == "" {
		return l, nil
	}
	config, err := c.read()
	if err != nil {
		return nil, err
	}
	c.good = config
	return tls.NewListener(l, &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.current(), nil },
	}), nil
}

// current is what the files say, or said when they were last good.
func (c *certificates) current() *tls.Config {
	config, err := c.read()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.good, c.complaint = config, ""
		return config
	}
	if text := err.Error(); text != c.complaint {
		c.complaint = text
		c.log.Error("the certificates that were last good stay in use", "error", err)
	}
	return c.good
}

// read reads the files. Sessions are not resumed, so that what a client shows
// is always judged by the files as they are.
func (c *certificates) read() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		return nil, fmt.Errorf("%scert_file, %skey_file: %w", c.prefix, c.prefix, err)
	}
	config := &tls.Config{
		Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: c.protocols, SessionTicketsDisabled: true,
	}
	if c.ca == "" {
		return config, nil
	}
	text, err := os.ReadFile(c.ca)
	if err != nil {
		return nil, fmt.Errorf("%sclient_ca_file: %w", c.prefix, err)
	}
	config.ClientCAs, config.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
	if !config.ClientCAs.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%sclient_ca_file: %s holds no certificate", c.prefix, c.ca)
	}
	if c.san != "" {
		config.VerifyConnection = c.checkName
	}
	return config, nil
}

// checkName refuses a client whose certificate is for another name.
func (c *certificates) checkName(state tls.ConnectionState) error {
	if len(state.PeerCertificates) == 0 {
		return errors.New("the client shows no certificate")
	}
	return state.PeerCertificates[0].VerifyHostname(c.san)
}
