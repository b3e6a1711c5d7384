package main

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ratelimitd/ratelimitd/pkg/backend"
)

// openMemcached opens the store in memcached. Replicas do not count each other
// there: as many share a limit as the settings say.
func (m *Main) openMemcached(registry prometheus.Registerer) (*store, error) {
	s := m.Settings
	o := backend.MemcachedOptions{
		Servers:     s.MemcachedAddresses(),
		SRV:         s.MemcachedSRV,
		SRVRefresh:  s.MemcachedSRVRefresh,
		Timeout:     max(backend.DefaultReadTimeout, s.StoreTimeout),
		Budget:      s.StoreTimeout,
		Connections: s.MemcachedConnections,
		Registerer:  registry,
		Log:         m.log,
	}
	if s.MemcachedTLS {
		o.TLS = &backend.TLS{
			Files:   filesOf(s, "memcached_tls_", "ca_file", s.MemcachedTLSCAFile, s.MemcachedTLSCertFile, s.MemcachedTLSKeyFile),
			AnyName: s.MemcachedTLSAnyName,
		}
	}
	memcached, err := backend.NewMemcached(o)
	if err != nil {
		return nil, err
	}
	return &store{
		decider:  memcached,
		system:   "memcached",
		ready:    memcached.Ready,
		replicas: func() int { return s.Replicas },
		close:    memcached.Close,
	}, nil
}
