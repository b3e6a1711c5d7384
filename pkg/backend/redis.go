package backend

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// RedisOptions are the settings of a [Redis] store. Only Server is needed.
type RedisOptions struct {
	// Server says where Redis is: see [ParseRedisURL].
	Server RedisServer
	TLS    RedisTLS

	// DialTimeout bounds the making of a connection; 0 is
	// DefaultDialTimeout. ReadTimeout and WriteTimeout bound a call where the
	// context's deadline does not do so earlier; 0 is DefaultReadTimeout, and
	// ReadTimeout for writes.
	DialTimeout, ReadTimeout, WriteTimeout time.Duration

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
// Cluster. A call of Decide is one script call, in a Cluster one for each hash
// slot, at the same time. Redis' own clock decides. It keeps to the deadline of
// the context it is given, and never repeats what may have been charged.
type Redis struct {
	client  redis.UniversalClient
	cluster *redis.ClusterClient // nil unless it is one
	sha     string
	calls   sync.Pool // *scriptCall
	undos   chan struct{}
	undoing sync.WaitGroup
	timeout time.Duration
	metrics *redisMetrics
	failing *sparingLog
	health  *health
}

// slack is how long Redis keeps a key after its state has come to equal one
// never seen.
const slack = time.Second

// maxUndos bounds how many requests' undos may be under way after the request
// itself was answered.
const maxUndos = 64

// NewRedis returns a store that connects when there is something to connect to:
// that Redis is absent is no error. An error means options that cannot work.
func NewRedis(o RedisOptions) (*Redis, error) {
	o = o.withDefaults()
	if len(o.Server.Addresses) == 0 {
		return nil, fmt.Errorf("redis: no address is given")
	}
	client, err := newClient(o)
	if err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	sum := sha1.Sum([]byte(algorithm.Script))
	r := &Redis{
		client:  client,
		sha:     hex.EncodeToString(sum[:]),
		calls:   sync.Pool{New: func() any { return new(scriptCall) }},
		undos:   make(chan struct{}, maxUndos),
		timeout: o.ReadTimeout,
		metrics: newRedisMetrics(o.Registerer),
		failing: newSparingLog(o.Log, time.Second),
	}
	r.cluster, _ = client.(*redis.ClusterClient)
	r.health = watch(r.connect, r.metrics.up, o.Log, o.Server.String())
	return r, nil
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
	r.undoing.Wait()
	return r.client.Close()
}

// Ready reports, without asking, whether Redis answered when it was last asked:
// nil, or why not. It is asked about once a second.
func (r *Redis) Ready() error { return r.health.ready() }

// Ping asks Redis now. In a Cluster one node that answers is enough, since the
// keys of the others follow their failure policy.
func (r *Redis) Ping(ctx context.Context) error {
	if r.cluster == nil {
		return r.client.Ping(ctx).Err()
	}
	return r.eachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return node.Ping(ctx).Err() })
}

// connect is what the watch asks: a ping, and the script where it is missing,
// so that the first requests do not carry its text.
func (r *Redis) connect(ctx context.Context) error {
	load := func(ctx context.Context, node redis.Cmdable) error {
		there, err := node.ScriptExists(ctx, r.sha).Result()
		if err == nil && len(there) == 1 && !there[0] {
			err = node.ScriptLoad(ctx, algorithm.Script).Err()
		}
		if redis.HasErrorPrefix(err, "NOPERM") { // SCRIPT may be denied; EVAL does as well
			return node.Ping(ctx).Err()
		}
		return err
	}
	if r.cluster == nil {
		return load(ctx, r.client)
	}
	return r.eachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return load(ctx, node) })
}

// eachMaster runs f on all masters of the Cluster. It fails when none succeeds.
func (r *Redis) eachMaster(ctx context.Context, f func(context.Context, *redis.Client) error) error {
	var mu sync.Mutex
	succeeded := 0
	err := r.cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		err := f(ctx, node)
		if err == nil {
			mu.Lock()
			succeeded++
			mu.Unlock()
		}
		return err
	})
	mu.Lock()
	defer mu.Unlock()
	if succeeded > 0 {
		return nil
	}
	return err
}

// Decide decides the asks. See [Redis].
func (r *Redis) Decide(ctx context.Context, asks []algorithm.Ask, out []algorithm.Decision) {
	if len(asks) == 0 {
		return
	}
	out = out[:len(asks)]
	began := time.Now()
	if r.cluster != nil {
		r.decideBySlot(ctx, asks, out)
	} else {
		c := r.newCall()
		c.addAll(asks)
		r.run(ctx, []*scriptCall{c})
		copy(out, c.out)
		r.free(c)
	}
	r.metrics.duration.Observe(time.Since(began).Seconds())
	r.report(asks, out)
}

// report counts and logs the requests that were not decided.
func (r *Redis) report(asks []algorithm.Ask, out []algorithm.Decision) {
	for from, to := range groups(asks) {
		for i := from; i < to; i++ {
			if err := out[i].Err; err != nil {
				r.metrics.failures.add(err, 1)
				r.failing.Warn("the store did not decide a request", "reason", err)
				break
			}
		}
	}
}
