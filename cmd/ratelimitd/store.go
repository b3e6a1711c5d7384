package main

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ratelimitd/ratelimitd/pkg/backend"
	"github.com/ratelimitd/ratelimitd/pkg/service"
	"github.com/ratelimitd/ratelimitd/pkg/settings"
	"github.com/ratelimitd/ratelimitd/pkg/statsd"
)

// store is where counts are kept, with what stacks on it.
type store struct {
	decider  service.Decider
	inline   bool       // it never waits for anything
	system   string     // its name among OpenTelemetry's, unless inline
	replicas func() int // how many share it, unless inline
	ready    func() error
	sources  []statsd.Source
	close    func()
}

// openStore opens the store of the settings. It does not fail for a store that
// does not answer yet.
func (m *Main) openStore(registry prometheus.Registerer) (*store, error) {
	open := m.openRedis
	switch m.Settings.Store {
	case settings.StoreMemory:
		return m.openMemory(registry), nil
	case settings.StoreMemcached:
		open = m.openMemcached
	}
	shared, err := open(registry)
	if err != nil {
		return nil, err
	}
	return m.stack(*shared, registry), nil
}

func (m *Main) openMemory(registry prometheus.Registerer) *store {
	s := m.Settings
	memory := backend.NewMemory(backend.MemoryOptions{
		MaxKeys:    s.MemoryMaxKeys,
		MaxBytes:   int64(s.MemoryMaxSize),
		Registerer: registry,
		Log:        m.log,
	})
	shedding := backend.WithShedding(memory, backend.SheddingOptions{Budget: s.StoreTimeout, Registerer: registry})
	return &store{
		inline:  true,
		decider: backend.WithFailurePolicy(shedding, backend.FailureOptions{Timeout: s.StoreTimeout, Registerer: registry}),
		ready:   func() error { return nil },
		close: func() {
			shedding.Close()
			memory.Close()
		},
	}
}

// stack stacks on a store that replicas share what belongs there. In the place of
// envoyproxy/ratelimit what is over is remembered as its local cache does.
func (m *Main) stack(shared store, registry prometheus.Registerer) *store {
	s, stacked := m.Settings, shared
	shedding := backend.WithShedding(shared.decider, backend.SheddingOptions{Budget: s.StoreTimeout, Registerer: registry})
	var decider service.Decider = shedding
	if s.KnownOverKeys > 0 {
		known := backend.WithKnownOver(shedding, backend.KnownOverOptions{
			MaxKeys: s.KnownOverKeys, Reference: m.Compat != nil, Registerer: registry,
		})
		decider = known
		stacked.sources = append(stacked.sources, localCacheSource(known))
	}
	local := backend.NewLocal(decider, backend.LocalOptions{
		MaxBytes:   int64(s.LocalMaxSize),
		Replicas:   shared.replicas,
		Registerer: registry,
		Log:        m.log,
	})
	stacked.decider = backend.WithFailurePolicy(decider, backend.FailureOptions{Timeout: s.StoreTimeout, Registerer: registry, Local: local})
	stacked.close = func() {
		local.Close()
		shedding.Close()
		shared.close()
	}
	return &stacked
}
