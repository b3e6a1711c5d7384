package xds

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/ratelimitd/ratelimitd/internal/certificates"
)

// TLS is how a control plane is trusted, and trusts this client.
type TLS struct {
	// Files are read again for each stream, for they are replaced from time to
	// time.
	certificates.Files

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
func (c *Client) dial() (*grpc.ClientConn, error) {
	o, secure := &c.o, insecure.NewCredentials()
	if o.TLS != nil {
		loaded, err := c.certificates.Current()
		if err != nil {
			return nil, err
		}
		config := loaded.Client(o.TLS.ServerName)
		config.MinVersion = tls.VersionTLS13
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
