package compat

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	configv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"

	"github.com/ratelimitd/ratelimitd/internal/redistest"
	"github.com/ratelimitd/ratelimitd/internal/xdstest"
)

// The tests here have the names and the bodies of envoyproxy/ratelimit's own.

const basicPolicy = `
domain: basic
descriptors:
  - {key: key1, rate_limit: {unit: second, requests_per_unit: 50}}
  - {key: one_per_minute, rate_limit: {unit: minute, requests_per_unit: 1}}
`

const anotherPolicy = `
domain: another
descriptors:
  - {key: key2, rate_limit: {unit: minute, requests_per_unit: 20}}
  - {key: key3, rate_limit: {unit: hour, requests_per_unit: 10}}
`

// request asks about descriptors of one entry each.
func request(domain string, pairs ...string) *rlsv3.RateLimitRequest {
	r := &rlsv3.RateLimitRequest{Domain: domain}
	for i := 0; i < len(pairs); i += 2 {
		r.Descriptors = append(r.Descriptors, &ratelimitv3.RateLimitDescriptor{
			Entries: []*ratelimitv3.RateLimitDescriptor_Entry{{Key: pairs[i], Value: pairs[i+1]}},
		})
	}
	return r
}

// statuses returns what is said of descriptors of one entry each.
func (s *server) statuses(t *testing.T, domain string, pairs ...string) (rlsv3.RateLimitResponse_Code, []*rlsv3.RateLimitResponse_DescriptorStatus) {
	t.Helper()
	response, err := s.ask(t, request(domain, pairs...))
	if err != nil {
		t.Fatal(err)
	}
	return response.GetOverallCode(), response.GetStatuses()
}

// awayFrom waits until no window of the length ends within a third of it.
func awayFrom(window time.Duration) {
	if left := window - time.Duration(time.Now().UnixNano())%window; left < min(window/3, 10*time.Second) {
		time.Sleep(left)
	}
}

// checkLocalCache waits until the gauges of the local cache say what was found there and what was not. They are not sent
// where there is none.
func (s *statsd) checkLocalCache(t *testing.T, cached bool, hits, misses int64) {
	t.Helper()
	const prefix = "ratelimit.localcache."
	waitFor(t, "gauges to be sent", func() bool { return s.gauge("ratelimit.go.sys") > 0 })
	if !cached {
		hits, misses = 0, 0
	}
	waitFor(t, fmt.Sprintf("%d hits and %d misses of the local cache", hits, misses), func() bool {
		return s.gauge(prefix+"hitCount") == hits && s.gauge(prefix+"missCount") == misses && s.gauge(prefix+"lookupCount") == hits+misses
	})
}

// checkBasic is the body that the tests share. onlyOver is whether what fits is left alone when another limit does not.
func checkBasic(t *testing.T, s *server, stats *statsd, onlyOver, cached bool) {
	t.Helper()
	if code, all := s.statuses(t, "foo", "hello", "world"); code != rlsv3.RateLimitResponse_OK || all[0].GetCurrentLimit() != nil {
		t.Errorf("an unknown domain: %v, %v", code, all)
	}
	stats.checkLocalCache(t, cached, 0, 0)
	awayFrom(time.Second)
	if _, all := s.statuses(t, "basic", "key1", "foo"); all[0].GetCurrentLimit().GetRequestsPerUnit() != 50 || all[0].GetLimitRemaining() != 49 {
		t.Errorf("50 a second: %v", all)
	}
	stats.checkLocalCache(t, cached, 0, 1)
	awayFrom(time.Minute)
	for hit := 1; hit <= 25; hit++ {
		code, all := s.statuses(t, "another", "key2", "x")
		if over := hit > 20; (code == rlsv3.RateLimitResponse_OVER_LIMIT) != over || all[0].GetLimitRemaining() != uint32(max(0, 20-hit)) {
			t.Fatalf("20 a minute, hit %d: %v", hit, all)
		}
	}
	const prefix = "ratelimit.service.rate_limit.another.key2."
	waitFor(t, "the counters", func() bool {
		return stats.total(prefix+"total_hits") == 25 && stats.total(prefix+"over_limit") == 5 && stats.total(prefix+"within_limit") == 20 && stats.total(prefix+"near_limit") == 4
	})
	known := stats.total(prefix + "over_limit_with_local_cache")
	if (known > 0) != cached {
		t.Errorf("%d hits were known to be over", known)
	}
	stats.checkLocalCache(t, cached, known, 26-known)
	awayFrom(time.Hour)
	awayFrom(time.Minute)
	for hit := 1; hit <= 15; hit++ {
		code, all := s.statuses(t, "another", "key2", "y", "key3", "y")
		left := 20 - hit
		if onlyOver {
			left = max(10, left)
		}
		if over := hit > 10; (code == rlsv3.RateLimitResponse_OVER_LIMIT) != over || all[0].GetLimitRemaining() != uint32(left) || all[1].GetLimitRemaining() != uint32(max(0, 10-hit)) {
			t.Fatalf("20 a minute and 10 an hour, hit %d: %v", hit, all)
		}
	}
	awayFrom(time.Minute)
	untilReset := func() time.Duration {
		_, all := s.statuses(t, "basic", "one_per_minute", "x")
		return all[0].GetDurationUntilReset().AsDuration()
	}
	before := untilReset()
	waitFor(t, "the time until the reset to fall", func() bool { return untilReset() <= before-2*time.Second })
}

// variant is a row of a test that has the reference's names for its variants.
type variant struct {
	name             string
	perSecond        bool // limits per second have a Redis of their own
	onlyOver, cached bool
	env              []string
}

// environment is that of a variant, with one Redis and another.
func (v *variant) environment(stats *statsd, main, perSecond place) []string {
	env := append(slices.Concat(main.variables("REDIS_"), perSecond.variables("REDIS_PERSECOND_"), stats.env(), v.env), "REDIS_PERSECOND="+strconv.FormatBool(v.perSecond))
	if v.cached {
		env = append(env, "LOCAL_CACHE_SIZE_IN_BYTES=1000")
	}
	if v.onlyOver {
		env = append(env, "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT=true")
	}
	return env
}

// check plays the shared body, and looks which Redis was asked.
func (v *variant) check(t *testing.T, main, perSecond place, more ...string) {
	t.Helper()
	stats := startStatsd(t)
	s := start(t, append(v.environment(stats, main, perSecond), more...)...)
	checkBasic(t, s, stats, v.onlyOver, v.cached)
	if asked := strings.Contains(s.page(t, "/metrics"), `ratelimitd_redis_asks_total{limits="per_second"} 1`+"\n"); asked != v.perSecond {
		t.Errorf("the Redis of limits per second was asked once: %v", asked)
	}
	if v.perSecond {
		waitFor(t, "word of its connections", func() bool { return stats.total("ratelimit.redis_per_second_pool.cx_total") > 0 })
	}
}

// withPolicies writes the policies of the shared body, and returns the environment that says where.
func withPolicies(t *testing.T) []string {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "ratelimit/config/basic.yaml"), basicPolicy)
	write(t, filepath.Join(dir, "ratelimit/config/another.yaml"), anotherPolicy)
	return []string{"RUNTIME_ROOT=" + dir, "RUNTIME_SUBDIRECTORY=ratelimit"}
}

func TestBasicConfig(t *testing.T) {
	for _, v := range []variant{
		{name: "WithoutPerSecondRedis"},
		{name: "WithPerSecondRedis", perSecond: true},
		{name: "WithoutPerSecondRedisWithLocalCache", cached: true},
		{name: "WithPerSecondRedisWithLocalCache", perSecond: true, cached: true},
		{name: "WithoutPerSecondRedisWithCachePrefix", env: []string{"CACHE_KEY_PREFIX=prefix:"}},
		{name: "WithoutPerSecondRedisWithstopCacheKeyIncrementWhenOverlimitConfig", onlyOver: true},
		{name: "WithPerSecondRedisWithstopCacheKeyIncrementWhenOverlimitConfig", perSecond: true, onlyOver: true},
		{name: "WithoutPerSecondRedisWithLocalCacheAndstopCacheKeyIncrementWhenOverlimitConfig", cached: true, onlyOver: true},
		{name: "WithPerSecondRedisWithLocalCacheAndstopCacheKeyIncrementWhenOverlimitConfig", perSecond: true, cached: true, onlyOver: true},
	} {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel() // most of it is waiting for clocks
			v.check(t, single(t, redistest.Options{}), single(t, redistest.Options{}), withPolicies(t)...)
		})
	}
}

func TestXdsProviderBasicConfig(t *testing.T) {
	plane := xdstest.Start(t, xdstest.Options{})
	limit := func(unit configv3.RateLimitUnit, requests uint32) *configv3.RateLimitPolicy {
		return &configv3.RateLimitPolicy{Unit: unit, RequestsPerUnit: requests}
	}
	plane.Set(t, "1",
		&configv3.RateLimitConfig{Name: "basic", Domain: "basic", Descriptors: []*configv3.RateLimitDescriptor{
			{Key: "key1", RateLimit: limit(configv3.RateLimitUnit_SECOND, 50)},
			{Key: "one_per_minute", RateLimit: limit(configv3.RateLimitUnit_MINUTE, 1)},
		}},
		&configv3.RateLimitConfig{Name: "another", Domain: "another", Descriptors: []*configv3.RateLimitDescriptor{
			{Key: "key2", RateLimit: limit(configv3.RateLimitUnit_MINUTE, 20)},
			{Key: "key3", RateLimit: limit(configv3.RateLimitUnit_HOUR, 10)},
		}},
	)
	for _, v := range []variant{
		{name: "WithoutPerSecondRedis"},
		{name: "WithPerSecondRedis", perSecond: true},
		{name: "WithoutPerSecondRedisWithLocalCache", cached: true},
		{name: "WithPerSecondRedisWithLocalCache", perSecond: true, cached: true},
	} {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			v.check(t, single(t, redistest.Options{}), single(t, redistest.Options{}), "CONFIG_TYPE=GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_SERVER_URL="+plane.Address, "CONFIG_GRPC_XDS_NODE_ID=envoy-ratelimit",
				"FORCE_START_WITHOUT_INITIAL_CONFIG=true", "HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED=true")
		})
	}
}

func TestBasicConfig_ExtraTags(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "ratelimit/config/basic.yaml"), basicPolicy)
	stats := startStatsd(t)
	env := append([]string{"RUNTIME_ROOT=" + dir, "RUNTIME_SUBDIRECTORY=ratelimit", "EXTRA_TAGS=zone:1,app:rl"}, redis(t)...)
	s := start(t, append(env, stats.env()...)...)
	s.statuses(t, "basic", "key1", "foo")
	waitFor(t, "counters with tags", func() bool {
		return stats.total("ratelimit.service.rate_limit.basic.key1.total_hits.__app=rl.__zone=1") == 1 && stats.total("ratelimit.service.config_load_success.__app=rl.__zone=1") == 1
	})
}

func TestShareThreshold(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "ratelimit/config/share.yaml"), `
domain: share
descriptors:
  - {key: path, value: "files/*", share_threshold: true, rate_limit: {unit: hour, requests_per_unit: 10}}
  - {key: own, value: "files/*", rate_limit: {unit: hour, requests_per_unit: 10}}
`)
	s := start(t, append([]string{"RUNTIME_ROOT=" + dir, "RUNTIME_SUBDIRECTORY=ratelimit"}, redis(t)...)...)
	awayFrom(time.Hour)
	for hit := 1; hit <= 10; hit++ {
		if code, all := s.statuses(t, "share", "path", "files/a"); code != rlsv3.RateLimitResponse_OK || all[0].GetLimitRemaining() != uint32(10-hit) {
			t.Fatalf("hit %d: %v", hit, all)
		}
	}
	if code, all := s.statuses(t, "share", "path", "files/b"); code != rlsv3.RateLimitResponse_OVER_LIMIT {
		t.Errorf("another one that shares: %v", all)
	}
	for _, value := range []string{"files/a", "files/b"} {
		if _, all := s.statuses(t, "share", "own", value); all[0].GetLimitRemaining() != 9 {
			t.Errorf("one that does not: %v", all)
		}
	}
}
