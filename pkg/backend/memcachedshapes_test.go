package backend

import (
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ratelimitd/ratelimitd/internal/certificates"
	"github.com/ratelimitd/ratelimitd/internal/redistest"
)

// caches open a store in so many memcached servers.
func caches(n int, options redistest.MemcachedOptions) func(t *testing.T) *testStore {
	return func(t *testing.T) *testStore {
		s := new(testStore)
		for range n {
			s.caches = append(s.caches, redistest.StartMemcached(t, options))
		}
		s.keys = func(t *testing.T) int {
			n := 0
			for _, c := range s.caches {
				n += c.Keys(t)
			}
			return n
		}
		s.decider, s.reg = openMemcached(t, s.caches, nil)
		return s
	}
}

// openMemcached opens a store on servers.
func openMemcached(t *testing.T, servers []*redistest.Memcached, change func(*MemcachedOptions)) (*Memcached, *prometheus.Registry) {
	t.Helper()
	reg := prometheus.NewRegistry()
	o := MemcachedOptions{Registerer: reg, Log: slog.New(slog.DiscardHandler), Timeout: 10 * time.Second, DialTimeout: 5 * time.Second}
	for _, s := range servers {
		o.Servers = append(o.Servers, s.Address)
		if c := s.Certificates; c != nil {
			o.TLS = &TLS{Files: certificates.Files{CA: c.CA, Cert: c.ClientCert, Key: c.ClientKey}, ServerName: "localhost"}
		}
	}
	if change != nil {
		change(&o)
	}
	m, err := NewMemcached(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m, reg
}
