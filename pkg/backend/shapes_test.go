package backend

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ratelimitd/ratelimitd/internal/certificates"
	"github.com/ratelimitd/ratelimitd/internal/redistest"
	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// testStore is a store of some shape, which several tests use one after
// another.
type testStore struct {
	decider
	name string
	keys func(t *testing.T) int // how many the store holds
	// servers are those behind the store; none behind memory.
	servers []*redistest.Server
	caches  []*redistest.Memcached
	reg     *prometheus.Registry
}

// key returns a key of its own for a test. Keys with the same tag share a hash
// slot.
func key(t *testing.T, tag, name string) []byte {
	return fmt.Appendf(nil, "{%s}%s/%s", tag, t.Name(), name)
}

// openRedis opens a store on a server's URL.
func openRedis(t *testing.T, url string, change func(*RedisOptions)) (*Redis, *prometheus.Registry) {
	t.Helper()
	reg := prometheus.NewRegistry()
	r, err := NewRedis(redisOptions(t, url, reg, change))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r, reg
}

// redisOptions are those of a server's URL, for tests.
func redisOptions(t *testing.T, url string, reg prometheus.Registerer, change func(*RedisOptions)) RedisOptions {
	t.Helper()
	server, err := ParseRedisURL(url)
	if err != nil {
		t.Fatal(err)
	}
	// A loaded machine must not turn a slow answer into a failed test.
	o := RedisOptions{Server: server, Registerer: reg, Log: slog.New(slog.DiscardHandler), ReadTimeout: 10 * time.Second, DialTimeout: 5 * time.Second}
	if change != nil {
		change(&o)
	}
	return o
}

// shapes open every kind of store there is.
var shapes = []struct {
	name string
	open func(t *testing.T) *testStore
}{
	{"memory", func(t *testing.T) *testStore {
		reg := prometheus.NewRegistry()
		m := NewMemory(MemoryOptions{Registerer: reg})
		t.Cleanup(m.Close)
		return &testStore{decider: m, keys: func(*testing.T) int { return m.Keys() }, reg: reg}
	}},
	{"redis", single(redistest.Options{}, nil)},
	{"user", single(redistest.Options{User: "limiter", Password: "p@ss/w%rd"}, nil)},
	{"unix", single(redistest.Options{Unix: true, Password: "secret"}, nil)},
	{"tls", single(redistest.Options{TLS: true, Password: "secret"}, func(o *RedisOptions, s *redistest.Server) {
		c := s.Certificates
		o.TLS = TLS{Files: certificates.Files{CA: c.CA, Cert: c.ClientCert, Key: c.ClientKey}, ServerName: "localhost"}
	})},
	{"sentinel", func(t *testing.T) *testStore {
		s := redistest.StartSentinel(t, redistest.Options{Password: "secret", SentinelPassword: "watch"})
		r, reg := openRedis(t, s.URL(), nil)
		return &testStore{decider: r, servers: s.Nodes[:1], keys: func(t *testing.T) int { return s.Nodes[0].Keys(t) }, reg: reg}
	}},
	{"known", func(t *testing.T) *testStore { // what is over is refused in front of a Cluster
		c := redistest.StartCluster(t, redistest.Options{})
		r, reg := openRedis(t, c.URL(), nil)
		known := WithKnownOver(r, KnownOverOptions{Registerer: reg})
		return &testStore{decider: known, servers: c.Masters, keys: func(t *testing.T) int { return c.Keys(t) }, reg: reg}
	}},
	{"cluster", func(t *testing.T) *testStore {
		c := redistest.StartCluster(t, redistest.Options{Password: "secret"})
		r, reg := openRedis(t, c.URL(), nil)
		return &testStore{decider: r, servers: c.Masters, keys: func(t *testing.T) int { return c.Keys(t) }, reg: reg}
	}},
	{"per second", func(t *testing.T) *testStore {
		fast, slow := redistest.Start(t, redistest.Options{TLS: true}), redistest.Start(t, redistest.Options{Password: "secret"})
		return inTwo(t, []*redistest.Server{fast, slow}, fast.URL(), slow.URL(), fast.Certificates)
	}},
	{"per second, cluster", func(t *testing.T) *testStore {
		fast, slow := redistest.StartCluster(t, redistest.Options{}), redistest.Start(t, redistest.Options{Unix: true})
		return inTwo(t, append(fast.Masters[:3:3], slow), fast.URL(), slow.URL(), nil)
	}},
	{"memcached", caches(1, redistest.MemcachedOptions{})},
	{"memcached unix", caches(1, redistest.MemcachedOptions{Unix: true})},
	{"memcached tls", caches(1, redistest.MemcachedOptions{TLS: true})},
	{"memcached nodes", caches(3, redistest.MemcachedOptions{})},
}

// inTwo opens a store in two Redis. Tests that need time have limits of a hundred
// hours, so that limits of an odd number are taken for those per second.
func inTwo(t *testing.T, servers []*redistest.Server, fast, slow string, c *redistest.Certificates) *testStore {
	p, reg := openPerSecond(t, fast, slow, func(o *RedisOptions) {
		if c != nil {
			o.TLS = TLS{Files: certificates.Files{CA: c.CA, Cert: c.ClientCert, Key: c.ClientKey}, ServerName: "localhost"}
		}
	})
	p.in = func(l *algorithm.Limit) bool { return l.Capacity%2 == 1 }
	keys := func(t *testing.T) (n int) {
		for _, s := range servers {
			n += s.Keys(t)
		}
		return n
	}
	return &testStore{decider: p, servers: servers, keys: keys, reg: reg}
}

// openPerSecond opens a store in two Redis, by their URLs. change concerns both.
func openPerSecond(t *testing.T, fast, slow string, change func(*RedisOptions)) (*PerSecond, *prometheus.Registry) {
	t.Helper()
	reg := prometheus.NewRegistry()
	p, err := NewPerSecond(redisOptions(t, fast, reg, change), redisOptions(t, slow, reg, change))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p, reg
}

func single(options redistest.Options, change func(*RedisOptions, *redistest.Server)) func(t *testing.T) *testStore {
	return func(t *testing.T) *testStore {
		s := redistest.Start(t, options)
		r, reg := openRedis(t, s.URL(), func(o *RedisOptions) {
			if change != nil {
				change(o, s)
			}
		})
		return &testStore{decider: r, servers: []*redistest.Server{s}, keys: func(t *testing.T) int { return s.Keys(t) }, reg: reg}
	}
}
