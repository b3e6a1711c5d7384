package backend

import (
	"context"
	"sync"
	"time"

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
// so that the first requests do not carry its text. A server that answers is
// looked at besides.
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
		err := load(ctx, r.client)
		if err == nil {
			r.inspector.visit(ctx, "", r.client)
		}
		return err
	}
	for _, address := range r.inspector.forget(time.Now()) {
		r.lanes.Delete(address)
	}
	return r.eachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		err := load(ctx, node)
		r.inspector.visit(ctx, node.Options().Addr, node)
		return err
	})
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
