package compat

import (
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/ratelimitd/ratelimitd/internal/redistest"
)

// memcached starts servers, and returns the environment that says where.
func memcached(t *testing.T, n int) ([]*redistest.Memcached, []string) {
	t.Helper()
	var servers []*redistest.Memcached
	var addresses []string
	for range n {
		server := redistest.StartMemcached(t, redistest.MemcachedOptions{})
		servers, addresses = append(servers, server), append(addresses, server.Address)
	}
	return servers, []string{"BACKEND_TYPE=memcache", "MEMCACHE_HOST_PORT=" + strings.Join(addresses, ",")}
}

// checkMemcached plays the shared body on so many servers.
func checkMemcached(t *testing.T, servers int, cached bool, env ...string) []*redistest.Memcached {
	t.Helper()
	started, where := memcached(t, servers)
	stats := startStatsd(t)
	s := start(t, slices.Concat(withPolicies(t), where, stats.env(), env)...)
	checkBasic(t, s, stats, false, cached)
	return started
}

func TestBasicConfigMemcache(t *testing.T) {
	t.Run("Memcache", func(t *testing.T) {
		t.Parallel()
		checkMemcached(t, 1, false)
	})
	t.Run("MemcacheWithLocalCache", func(t *testing.T) {
		t.Parallel()
		checkMemcached(t, 1, true, "LOCAL_CACHE_SIZE_IN_BYTES=1000")
	})
	t.Run("MemcacheWithPrefix", func(t *testing.T) {
		t.Parallel()
		for key := range checkMemcached(t, 1, false, "CACHE_KEY_PREFIX=prefix-")[0].Expiries(t) {
			if !strings.HasPrefix(key, "prefix-") {
				t.Errorf("the key %q has no prefix", key)
			}
		}
	})
}

func TestConfigMemcacheWithMaxIdleConns(t *testing.T) {
	for name, idle := range map[string]string{"MemcacheWithDefaultMaxIdleConns": "2", "MemcacheWithCustomizedMaxIdleConns": "100"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkMemcached(t, 1, false, "MEMCACHE_MAX_IDLE_CONNS="+idle)
		})
	}
}

func TestMultiNodeMemcache(t *testing.T) {
	t.Parallel()
	checkMemcached(t, 2, false)
}

// Three replicas are asked all at once: no more than the limit passes, however long the unit. The reference lets all of these through.
func TestMemcacheIsExact(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "ratelimit/config/long.yaml"), `
domain: long
descriptors:
  - {key: day, rate_limit: {unit: day, requests_per_unit: 20}}
  - {key: month, rate_limit: {unit: month, requests_per_unit: 20}}
  - {key: year, rate_limit: {unit: year, requests_per_unit: 20}}
`)
	_, where := memcached(t, 2)
	var replicas []*server
	for range 3 {
		replicas = append(replicas, start(t, append(where, "RUNTIME_ROOT="+dir, "RUNTIME_SUBDIRECTORY=ratelimit")...))
	}
	awayFrom(24 * time.Hour)
	for _, unit := range []string{"day", "month", "year"} {
		var passed, denied atomic.Int64
		var wg sync.WaitGroup
		for i := range 60 {
			wg.Go(func() {
				switch code, _ := replicas[i%3].statuses(t, "long", unit, "x"); code {
				case rlsv3.RateLimitResponse_OK:
					passed.Add(1)
				case rlsv3.RateLimitResponse_OVER_LIMIT:
					denied.Add(1)
				}
			})
		}
		wg.Wait()
		if passed.Load() != 20 || denied.Load() != 40 {
			t.Errorf("%s: %d passed and %d were denied, want 20 and 40", unit, passed.Load(), denied.Load())
		}
	}
}

// Over TLS, to a server that wants a certificate.
func TestMemcacheTLS(t *testing.T) {
	t.Parallel()
	cache := redistest.StartMemcached(t, redistest.MemcachedOptions{TLS: true})
	c := cache.Certificates
	s := start(t, append(withPolicies(t), "BACKEND_TYPE=memcache", "MEMCACHE_HOST_PORT="+cache.Address, "MEMCACHE_TLS=true",
		"MEMCACHE_TLS_CACERT="+c.CA, "MEMCACHE_TLS_CLIENT_CERT="+c.ClientCert, "MEMCACHE_TLS_CLIENT_KEY="+c.ClientKey,
		"MEMCACHE_TLS_SKIP_HOSTNAME_VERIFICATION=true")...)
	awayFrom(time.Hour)
	for hit := 1; hit <= 11; hit++ {
		if code, all := s.statuses(t, "another", "key3", "x"); (code == rlsv3.RateLimitResponse_OVER_LIMIT) != (hit > 10) {
			t.Fatalf("hit %d: %v", hit, all)
		}
	}
}
