package backend

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// RedisOptions are the settings of a [Redis] store. Only Server is needed.
type RedisOptions struct {
	// Server says where Redis is: see [ParseRedisURL].
	Server RedisServer
	TLS    TLS

	// LoginFiles hold the passwords, if they are in files.
	LoginFiles RedisLoginFiles

	// DialTimeout bounds the making of a connection; 0 is
	// DefaultDialTimeout. ReadTimeout and WriteTimeout bound a call where the
	// context's deadline does not do so earlier; 0 is DefaultReadTimeout, and
	// ReadTimeout for writes.
	DialTimeout, ReadTimeout, WriteTimeout time.Duration

	// Budget is what a call may take before it counts as failed: servers whose
	// calls fail one after another are left alone for a moment. 0 is
	// ReadTimeout.
	Budget time.Duration

	// PoolSize is how many connections there are at most, to each node of a
	// Cluster; 0 is DefaultPoolSize.
	PoolSize int

	// Registerer takes the metrics; nil keeps them unregistered.
	Registerer prometheus.Registerer

	// Log takes changes of readiness, and at most one line a second about
	// calls that failed; nil is slog.Default.
	Log *slog.Logger
}

// Redis is a store in Redis: one server, a master behind sentinels, or a
// Cluster. A call of Decide on an idle server is one script call, in a Cluster
// one for each hash slot, at the same time. What is asked while a server is busy
// is merged into calls that leave as soon as an earlier one is back, and decide
// as if it had been asked one after another. Redis' own clock decides. Decide
// keeps to the deadline of the context it is given, and what may have been
// charged is never repeated.
type Redis struct {
	client  redis.UniversalClient
	cluster *redis.ClusterClient // nil unless it is one
	sha     string
	calls   sync.Pool    // *scriptCall
	lanes   sync.Map     // string, the address of a server, to *lane
	strain  atomic.Int64 // the sum of theirs
	log     *slog.Logger
	returns *returns
	timeout time.Duration
	budget  time.Duration
	metrics *redisMetrics
	failing *sparingLog
	health  *health

	inspector   *inspector
	connections *connections
}

// slack is how long Redis keeps a key after its state has come to equal one
// never seen.
const slack = time.Second

// NewRedis returns a store that connects when there is something to connect to:
// that Redis is absent is no error. An error means options that cannot work.
func NewRedis(o RedisOptions) (*Redis, error) {
	o = o.withDefaults()
	client, err := connectable(o)
	if err != nil {
		return nil, err
	}
	return newRedis(client, o, newMeasures(o.Registerer, "redis", "slot")), nil
}

// connectable returns a client for options that can work.
func connectable(o RedisOptions) (redis.UniversalClient, error) {
	if len(o.Server.Addresses) == 0 {
		return nil, fmt.Errorf("redis: no address is given")
	}
	client, err := newClient(o)
	if err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	return client, nil
}

// newRedis returns a store that is measured by m.
func newRedis(client redis.UniversalClient, o RedisOptions, m measures) *Redis {
	client.AddHook(recoverHook{})
	client.AddHook(discretion{})
	counted := new(connections)
	sum := sha1.Sum([]byte(algorithm.Script))
	r := &Redis{
		client:  client,
		sha:     hex.EncodeToString(sum[:]),
		calls:   sync.Pool{New: func() any { return new(scriptCall) }},
		log:     o.Log.With("redis", o.Server.String()),
		timeout: o.ReadTimeout,
		budget:  o.Budget,
		metrics: newRedisMetrics(o.Registerer, m),

		connections: counted,
	}
	if r.cluster, _ = client.(*redis.ClusterClient); r.cluster != nil {
		r.cluster.OnNewNode(func(node *redis.Client) {
			node.AddHook(counted)
			node.AddHook(discretion{}) // the Cluster's own questions are not among the client's
		})
	} else {
		client.AddHook(counted)
	}
	r.failing = newSparingLog(r.log, time.Second)
	r.returns = newReturns(o.ReadTimeout, m.undos, r.failing)
	r.inspector = newInspector(o.Registerer, r.log)
	showBreakers(o.Registerer, "redis", r.breakersShut)
	r.health = watch(r.connect, r.metrics.up, r.log)
	return r
}

func (o RedisOptions) withDefaults() RedisOptions {
	set := func(d *time.Duration, to time.Duration) {
		if *d <= 0 {
			*d = to
		}
	}
	set(&o.DialTimeout, DefaultDialTimeout)
	set(&o.ReadTimeout, DefaultReadTimeout)
	set(&o.WriteTimeout, o.ReadTimeout)
	set(&o.Budget, o.ReadTimeout)
	if o.PoolSize <= 0 {
		o.PoolSize = DefaultPoolSize
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return o
}

// Close ends the store's goroutines and connections.
func (r *Redis) Close() error {
	r.health.close()
	r.returns.close()
	return r.client.Close()
}

// Decide decides the asks. See [Redis].
func (r *Redis) Decide(ctx context.Context, asks []algorithm.Ask, out []algorithm.Decision) {
	if len(asks) == 0 {
		return
	}
	out = out[:len(asks)]
	began := time.Now()
	if r.cluster != nil {
		decideByPlace(ctx, r, asks, out)
	} else {
		r.decideTogether(ctx, r.lane(""), asks, out)
	}
	r.metrics.duration.Observe(time.Since(began).Seconds())
	r.metrics.report(r, asks, out)
}
