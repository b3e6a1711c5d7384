package certificates

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
)

// Server is how a server meets one connection. With authorities, clients have
// to show a certificate of one of them. Sessions are not resumed, so that what
// a client shows is always judged by the files as they are.
func (l *Loaded) Server() *tls.Config {
	config := &tls.Config{Certificates: l.Shown, MinVersion: tls.VersionTLS12, SessionTicketsDisabled: true}
	if l.Authorities != nil {
		config.ClientCAs, config.ClientAuth = l.Authorities, tls.RequireAndVerifyClientCert
	}
	return config
}

// Client is how a client makes one connection to the server of a name.
func (l *Loaded) Client(name string) *tls.Config {
	return &tls.Config{RootCAs: l.Authorities, Certificates: l.Shown, ServerName: name, MinVersion: tls.VersionTLS12}
}

// AnyName is Client to a server whose certificate may be for any name, but must
// be of one of the authorities.
func (l *Loaded) AnyName(name string) *tls.Config {
	config := l.Client(name)
	config.InsecureSkipVerify = true // crypto/tls has no word for the name alone
	config.VerifyConnection = l.checkChain
	return config
}

// checkChain is what crypto/tls checks of a server, but for the name.
func (l *Loaded) checkChain(state tls.ConnectionState) error {
	if len(state.PeerCertificates) == 0 {
		return errors.New("the server shows no certificate")
	}
	between := x509.NewCertPool()
	for _, certificate := range state.PeerCertificates[1:] {
		between.AddCert(certificate)
	}
	_, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: l.Authorities, Intermediates: between})
	return err
}
