package backend

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

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
	if r.cluster != nil {
		return r.eachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return load(ctx, node) })
	}
	if err := load(ctx, r.client); err != nil {
		return err
	}
	r.warned.Do(func() { r.warnOfEviction(ctx) })
	return nil
}

// warnOfEviction says so when Redis may drop counters that are in use: a limit
// would begin anew, and nobody would see why.
func (r *Redis) warnOfEviction(ctx context.Context) {
	info, err := r.client.InfoMap(ctx, "memory").Result()
	if err != nil {
		return // no permission to ask is no reason to warn
	}
	memory := info["Memory"]
	if policy := memory["maxmemory_policy"]; memory["maxmemory"] != "0" && policy != "" && policy != "noeviction" {
		r.log.Warn("redis drops counters that are in use when its memory is full: set maxmemory-policy to noeviction",
			"maxmemory_policy", policy)
	}
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
