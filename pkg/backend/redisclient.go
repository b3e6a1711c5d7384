package backend

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// What RedisOptions means by zero.
const (
	DefaultDialTimeout = 500 * time.Millisecond
	DefaultReadTimeout = 200 * time.Millisecond
	DefaultPoolSize    = 32
)

// maxRedirects is how often a command follows MOVED and ASK within a Cluster.
const maxRedirects = 3

// RedisTLS are the files and names of encrypted connections. The zero value
// trusts the system's authorities and shows no certificate.
type RedisTLS struct {
	// CAFile holds the certificates to trust, in place of the system's.
	CAFile string

	// CertFile and KeyFile are shown to servers that ask for them.
	CertFile, KeyFile string

	// ServerName is what the server's certificate has to be for, when that is
	// not the host of its address.
	ServerName string

	// SkipVerify trusts every server. It is for tries only.
	SkipVerify bool
}

// config reads the files.
func (t RedisTLS) config() (*tls.Config, error) {
	config := &tls.Config{ServerName: t.ServerName, InsecureSkipVerify: t.SkipVerify, MinVersion: tls.VersionTLS12}
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read the authorities to trust: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no certificate in PEM form", t.CAFile)
		}
	}
	if t.CertFile != "" || t.KeyFile != "" {
		pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("read the client certificate: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// newClient returns a client that connects when it is first used. It never
// sends a command twice by itself, but for MOVED and ASK.
func newClient(o RedisOptions) (redis.UniversalClient, error) {
	u := &redis.UniversalOptions{
		Addrs:            o.Server.Addresses,
		MasterName:       o.Server.MasterName,
		Username:         o.Server.Username,
		Password:         o.Server.Password,
		SentinelUsername: o.Server.SentinelUsername,
		SentinelPassword: o.Server.SentinelPassword,
		DB:               o.Server.DB,

		Protocol:                 2, // nothing here is pushed
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},

		MaxRetries:      -1,
		MaxRedirects:    maxRedirects,
		MinRetryBackoff: time.Millisecond, // between redirects
		MaxRetryBackoff: 4 * time.Millisecond,

		DialTimeout:           o.DialTimeout,
		DialerRetries:         1,
		ReadTimeout:           o.ReadTimeout,
		WriteTimeout:          o.WriteTimeout,
		ContextTimeoutEnabled: true,
		PoolSize:              o.PoolSize,
		MaxActiveConns:        o.PoolSize,
		PoolTimeout:           o.ReadTimeout,
		PipelinePoolSize:      -1, // batches use the one pool
		ConnMaxIdleTime:       5 * time.Minute,
	}
	if o.Server.TLS {
		config, err := o.TLS.config()
		if err != nil {
			return nil, err
		}
		u.TLSConfig = config
	}
	switch o.Server.Kind {
	case RedisCluster:
		c := u.Cluster()
		c.DisableRoutingPolicies = true // else it asks each node for its commands
		c.ClusterStateReloadInterval = 10 * time.Second
		return redis.NewClusterClient(c), nil
	case RedisSentinel:
		return redis.NewFailoverClient(u.Failover()), nil
	default:
		simple := u.Simple()
		if strings.HasPrefix(simple.Addr, "/") {
			simple.Network = "unix"
		}
		return redis.NewClient(simple), nil
	}
}

// once is a command that is never sent a second time unless the server says
// that it did not run: the client takes note of NoRetry.
type once struct{ *redis.StringCmd }

func (once) NoRetry() bool { return true }

// silence takes the place of go-redis' own log, which prints a line for each
// failure to connect: what matters of those is in the errors, and is logged
// here sparingly.
type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

// The logger is go-redis' only global; it may be set only before the first
// client exists.
func init() { redis.SetLogger(silence{}) } //nolint:gochecknoinits // later would be a data race with clients
