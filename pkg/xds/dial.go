package xds

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// TLS is how a control plane is trusted, and trusts this client. The files are
// in PEM and read again for each connection, for they are replaced from time
// to time.
type TLS struct {
	// CAFile holds the authorities that may sign the server's certificate;
	// empty: those of the system.
	CAFile string

	// CertFile and KeyFile hold this client's certificate; both or none.
	CertFile, KeyFile string

	// ServerName is the name that the server's certificate must be for; empty:
	// the host of the address.
	ServerName string
}

const (
	// defaultMaxMessage is far above what control planes send: a response
	// that is too large leaves a service without limits.
	defaultMaxMessage = 64 << 20

	// connectTimeout is for the whole of a connection, handshakes included.
	connectTimeout = 10 * time.Second
)

// dial prepares a connection. It is made when it is used first.
func (o *Options) dial() (*grpc.ClientConn, error) {
	secure := insecure.NewCredentials()
	if o.TLS != nil {
		config, err := o.TLS.config()
		if err != nil {
			return nil, err
		}
		secure = credentials.NewTLS(config)
	}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(secure),
		grpc.WithDisableServiceConfig(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(cmp.Or(o.MaxMessage, defaultMaxMessage))),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: connectTimeout}),
	}
	if !strings.HasPrefix(o.Server, "unix") {
		options = append(options, grpc.WithContextDialer(dialTCP))
	}
	return grpc.NewClient(o.Server, options...)
}

// dialTCP notices within a minute that the other side is gone without a word.
// The pings of HTTP/2 would do, but servers take them for an attack when they
// come more often than every five minutes.
func dialTCP(ctx context.Context, address string) (net.Conn, error) {
	d := net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 20 * time.Second, Interval: 10 * time.Second, Count: 3}}
	return d.DialContext(ctx, "tcp", address)
}

// config reads the files as they are now.
func (t *TLS) config() (*tls.Config, error) {
	config := &tls.Config{ServerName: t.ServerName, MinVersion: tls.VersionTLS13}
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no certificate in PEM form", t.CAFile)
		}
	}
	if t.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("%s, %s: %w", t.CertFile, t.KeyFile, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
