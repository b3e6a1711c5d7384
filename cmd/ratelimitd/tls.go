package main

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"net"

	"github.com/ratelimitd/ratelimitd/internal/certificates"
	"github.com/ratelimitd/ratelimitd/pkg/settings"
)

// security is how a socket speaks TLS.
type security struct {
	files     certificates.Files // without a certificate: no TLS
	san       string             // a DNS name that clients' certificates must have; "": any
	protocols []string

	source *certificates.Source // nil: no TLS, or not yet
}

func adminSecurity(s *settings.Settings) *security {
	return &security{files: filesOf(s, "admin_tls_", "client_ca_file", s.AdminTLSClientCAFile, s.AdminTLSCertFile, s.AdminTLSKeyFile)}
}

func grpcSecurity(s *settings.Settings) *security {
	return &security{
		files: filesOf(s, "grpc_tls_", "client_ca_file", s.GRPCTLSClientCAFile, s.GRPCTLSCertFile, s.GRPCTLSKeyFile),
		san:   s.GRPCTLSClientSAN, protocols: []string{"h2"},
	}
}

// filesOf names the files of settings that begin alike.
func filesOf(s *settings.Settings, prefix, authorities, ca, cert, key string) certificates.Files {
	return certificates.Files{
		CA: ca, CASetting: s.Called(prefix + authorities),
		Cert: cert, CertSetting: s.Called(prefix + "cert_file"),
		Key: key, KeySetting: s.Called(prefix + "key_file"),
	}
}

// listener adds TLS to a listener, if there is a certificate. The error is that
// of files which are bad at the start.
func (s *security) listener(l net.Listener, log *slog.Logger) (net.Listener, error) {
	if s.files.Cert == "" {
		return l, nil
	}
	source := certificates.NewSource(s.files, log)
	if _, err := source.Current(); err != nil {
		return nil, err
	}
	s.source = source
	return tls.NewListener(l, &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			loaded, err := source.Current()
			if err != nil {
				return nil, err
			}
			return s.config(loaded), nil
		},
	}), nil
}

func (s *security) config(loaded *certificates.Loaded) *tls.Config {
	config := loaded.Server()
	config.NextProtos = s.protocols
	if s.san != "" {
		config.VerifyConnection = s.checkName
	}
	return config
}

// checkName refuses a client whose certificate is for another name.
func (s *security) checkName(state tls.ConnectionState) error {
	if len(state.PeerCertificates) == 0 {
		return errors.New("the client shows no certificate")
	}
	return state.PeerCertificates[0].VerifyHostname(s.san)
}
