package backend

import (
	"cmp"
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"time"

	"github.com/ratelimitd/ratelimitd/internal/certificates"
)

// TLS are the files and names of encrypted connections. The zero value
// trusts the system's authorities and shows no certificate.
type TLS struct {
	// Files are read again for each connection, for they are replaced from time
	// to time.
	certificates.Files

	// ServerName is what the server's certificate has to be for, when that is
	// not the host of its address.
	ServerName string

	// AnyName takes a certificate that is for another server, if only it is of
	// an authority.
	AnyName bool

	// SkipVerify trusts every server. It is for tries only.
	SkipVerify bool
}

// secureDialer makes encrypted connections.
type secureDialer struct {
	tls    TLS
	source *certificates.Source
	plain  net.Dialer
}

// newSecureDialer fails for files which are bad at the start.
func newSecureDialer(o TLS, timeout time.Duration, log *slog.Logger) (*secureDialer, error) {
	d := &secureDialer{tls: o, source: certificates.NewSource(o.Files, log)}
	d.plain.Timeout = timeout
	d.plain.KeepAliveConfig = net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 5 * time.Second, Count: 3}
	_, err := d.source.Current()
	return d, err
}

// dial reads the files anew, which go-redis' own does not. The dial timeout is
// for the handshake too.
func (d *secureDialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	loaded, err := d.source.Current()
	if err != nil {
		return nil, err
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	ctx, cancel := context.WithTimeout(ctx, d.plain.Timeout)
	defer cancel()
	secure := tls.Dialer{NetDialer: &d.plain, Config: d.config(loaded, cmp.Or(d.tls.ServerName, host))}
	return secure.DialContext(ctx, network, address)
}

func (d *secureDialer) config(loaded *certificates.Loaded, name string) *tls.Config {
	if d.tls.AnyName {
		return loaded.AnyName(name)
	}
	config := loaded.Client(name)
	config.InsecureSkipVerify = d.tls.SkipVerify
	return config
}
