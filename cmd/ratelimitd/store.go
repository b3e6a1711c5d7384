package main

import (
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ratelimitd/ratelimitd/pkg/backend"
	"github.com/ratelimitd/ratelimitd/pkg/service"
	"github.com/ratelimitd/ratelimitd/pkg/settings"
	"github.com/ratelimitd/ratelimitd/pkg/statsd"
)

// store is where counts are kept, with all that stacks on it.
type store struct {
	decider service.Decider
	inline  bool         // it never waits for anything
	system  string       // its name among OpenTelemetry's, unless inline
	ready   func() error // nil: it answers
	close   func()
	sources []statsd.Source
}

// openStore opens the store of the settings. It does not fail for a store that
// does not answer yet. perSecond are those about the Redis of limits per second;
// nil: it is that of the others. asReference remembers what is over as the local
// cache of envoyproxy/ratelimit does.
func openStore(s, perSecond *settings.Settings, asReference bool, log *slog.Logger, registry prometheus.Registerer) (*store, error) {
	policy := backend.FailureOptions{Timeout: s.StoreTimeout, Registerer: registry}
	shed := backend.SheddingOptions{Budget: s.StoreTimeout, Registerer: registry}
	if s.Store == settings.StoreMemory {
		memory := backend.NewMemory(backend.MemoryOptions{
			MaxKeys:    s.MemoryMaxKeys,
			MaxBytes:   int64(s.MemoryMaxSize),
			Registerer: registry,
			Log:        log,
		})
		shedding := backend.WithShedding(memory, shed)
		return &store{
			inline:  true,
			decider: backend.WithFailurePolicy(shedding, policy),
			ready:   func() error { return nil },
			close: func() {
				shedding.Close()
				memory.Close()
			},
		}, nil
	}
	if s.Store == settings.StoreMemcached {
		return openMemcached(s, asReference, log, registry)
	}
	redis, err := openRedis(s, perSecond, log, registry)
	if err != nil {
		return nil, err
	}
	shedding := backend.WithShedding(redis.decider, shed)
	sources := redis.sources()
	var decider service.Decider = shedding
	if s.RedisKnownOverKeys > 0 {
		known := backend.WithKnownOver(shedding, backend.KnownOverOptions{
			MaxKeys: s.RedisKnownOverKeys, Reference: asReference, Registerer: registry,
		})
		decider, sources = known, append(sources, localCacheSource(known))
	}
	replicas := backend.JoinReplicas(redis.main, backend.ReplicasOptions{Unmet: s.Replicas, Registerer: registry, Log: log})
	local := backend.NewLocal(decider, backend.LocalOptions{
		MaxBytes:   int64(s.LocalMaxSize),
		Replicas:   replicas.Count,
		Registerer: registry,
		Log:        log,
	})
	policy.Local = local
	return &store{
		decider: backend.WithFailurePolicy(decider, policy),
		system:  "redis",
		ready:   redis.decider.Ready,
		close: func() {
			local.Close()
			replicas.Close()
			shedding.Close()
			_ = redis.decider.Close()
		},
		sources: sources,
	}, nil
}
