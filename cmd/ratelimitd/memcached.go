package main

import (
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ratelimitd/ratelimitd/pkg/backend"
	"github.com/ratelimitd/ratelimitd/pkg/service"
	"github.com/ratelimitd/ratelimitd/pkg/settings"
	"github.com/ratelimitd/ratelimitd/pkg/statsd"
)

// openMemcached opens the store in memcached, with all that stacks on it. Replicas
// do not count each other there: as many share a limit as the settings say.
func openMemcached(s *settings.Settings, asReference bool, log *slog.Logger, registry prometheus.Registerer) (*store, error) {
	o := backend.MemcachedOptions{
		Servers:     s.MemcachedAddresses(),
		SRV:         s.MemcachedSRV,
		SRVRefresh:  s.MemcachedSRVRefresh,
		Timeout:     max(backend.DefaultReadTimeout, s.StoreTimeout),
		Budget:      s.StoreTimeout,
		Connections: s.MemcachedConnections,
		Registerer:  registry,
		Log:         log,
	}
	if s.MemcachedTLS {
		o.TLS = &backend.RedisTLS{
			Files:   filesOf(s, "memcached_tls_", "ca_file", s.MemcachedTLSCAFile, s.MemcachedTLSCertFile, s.MemcachedTLSKeyFile),
			AnyName: s.MemcachedTLSAnyName,
		}
	}
	memcached, err := backend.NewMemcached(o)
	if err != nil {
		return nil, err
	}
	shedding := backend.WithShedding(memcached, backend.SheddingOptions{Budget: s.StoreTimeout, Registerer: registry})
	var decider service.Decider = shedding
	var sources []statsd.Source
	if s.RedisKnownOverKeys > 0 {
		known := backend.WithKnownOver(shedding, backend.KnownOverOptions{MaxKeys: s.RedisKnownOverKeys, Reference: asReference, Registerer: registry})
		decider, sources = known, append(sources, localCacheSource(known))
	}
	local := backend.NewLocal(decider, backend.LocalOptions{
		MaxBytes:   int64(s.LocalMaxSize),
		Replicas:   func() int { return s.Replicas },
		Registerer: registry,
		Log:        log,
	})
	return &store{
		decider: backend.WithFailurePolicy(decider, backend.FailureOptions{Timeout: s.StoreTimeout, Registerer: registry, Local: local}),
		system:  "memcached",
		ready:   memcached.Ready,
		sources: sources,
		close: func() {
			local.Close()
			shedding.Close()
			memcached.Close()
		},
	}, nil
}
