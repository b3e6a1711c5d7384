package main

import (
	"errors"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ratelimitd/ratelimitd/pkg/backend"
	"github.com/ratelimitd/ratelimitd/pkg/service"
	"github.com/ratelimitd/ratelimitd/pkg/settings"
)

// store is where counts are kept, with all that stacks on it.
type store struct {
	decider service.Decider
	ready   func() error // nil: it answers
	close   func()
}

// openStore opens the store of the settings. It does not fail for a store that
// does not answer yet.
func openStore(s *settings.Settings, log *slog.Logger, registry prometheus.Registerer) (*store, error) {
	if s.Store == settings.StoreRedis {
		return nil, errors.New("redis is not there yet")
	}
	memory := backend.NewMemory(backend.MemoryOptions{
		MaxKeys:    s.MemoryMaxKeys,
		MaxBytes:   int64(s.MemoryMaxSize),
		Registerer: registry,
		Log:        log,
	})
	return &store{
		decider: backend.WithFailurePolicy(memory, backend.FailureOptions{Timeout: s.StoreTimeout, Registerer: registry}),
		ready:   func() error { return nil },
		close:   memory.Close,
	}, nil
}
