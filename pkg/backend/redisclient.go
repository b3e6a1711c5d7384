package backend

import (
	"context"
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
		secure, err := newSecureDialer(o.TLS, o.DialTimeout, o.Log)
		if err != nil {
			return nil, err
		}
		u.Dialer = secure.dial
	}
	if err := o.LoginFiles.apply(u, o.Log); err != nil {
		return nil, err
	}
	switch o.Server.Kind {
	case RedisCluster:
		c := u.Cluster()
		c.DisableRoutingPolicies = true // else it asks each node for its commands
		c.ClusterStateReloadInterval = 10 * time.Second
		return redis.NewClusterClient(c), nil
	case RedisSentinel:
		return o.LoginFiles.newFailoverClient(u.Failover(), o.Log)
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
