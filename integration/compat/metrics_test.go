package compat

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/ratelimitd/ratelimitd/internal/programtest"
	"github.com/ratelimitd/ratelimitd/internal/redistest"
)

const metricsPolicy = `
domain: d
descriptors:
  - {key: plain, rate_limit: &twice {unit: hour, requests_per_unit: 2}}
  - {key: tried, shadow_mode: true, rate_limit: *twice}
  - {key: wild, value: "a*", rate_limit: *twice}
  - {key: told, value_to_metric: true, rate_limit: *twice}
  - {key: shared, value: "a*", share_threshold: true, rate_limit: *twice}
  - {key: free, rate_limit: {unlimited: true}}
  - key: path
    value: /x
    descriptors:
      - {key: user, rate_limit: *twice, descriptors: [{key: all, detailed_metric: true, rate_limit: *twice}]}
`

// enough is how often to ask by twice, so that one is known to be over though the machine is slow.
const enough = 6

// everything makes each metric count that envoyproxy/ratelimit has.
func (s *server) everything(t *testing.T) {
	t.Helper()
	ask := func(times int, domain string, pairs ...string) {
		t.Helper()
		for range times {
			s.statuses(t, domain, pairs...)
		}
	}
	ask(1, "nobody:knows", "k", "v")
	for _, key := range []string{"plain", "tried", "wild", "told", "shared", "free"} {
		ask(enough, "d", key, "a 10.1.2.3 b:c")
	}
	nested := &ratelimitv3.RateLimitDescriptor{Entries: []*ratelimitv3.RateLimitDescriptor_Entry{{Key: "path", Value: "/x"}, {Key: "user", Value: "u"}}}
	deeper := &ratelimitv3.RateLimitDescriptor{Entries: append(nested.GetEntries()[:2:2], &ratelimitv3.RateLimitDescriptor_Entry{Key: "all", Value: ""})}
	brought := &ratelimitv3.RateLimitDescriptor{
		Entries: []*ratelimitv3.RateLimitDescriptor_Entry{{Key: "over", Value: "ride"}},
		Limit:   &ratelimitv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 2, Unit: typev3.RateLimitUnit_HOUR},
	}
	for _, d := range []*ratelimitv3.RateLimitDescriptor{nested, deeper, brought} {
		for range enough {
			if _, err := s.ask(t, &rlsv3.RateLimitRequest{Domain: "d", Descriptors: []*ratelimitv3.RateLimitDescriptor{d}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := s.ask(t, &rlsv3.RateLimitRequest{}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("without a domain: %v", err)
	}
	health := healthpb.NewHealthClient(s.conn)
	if _, err := health.Check(t.Context(), &healthpb.HealthCheckRequest{Service: "ratelimit"}); err != nil {
		t.Error(err)
	}
	if _, err := health.List(t.Context(), &healthpb.HealthListRequest{}); err != nil {
		t.Error(err)
	}
}

// prepare returns a directory with a policy, and the environment that goes with it and with a Redis.
func prepare(t *testing.T) (dir string, store *redistest.Server, env []string) {
	t.Helper()
	dir, store = t.TempDir(), redistest.Start(t, redistest.Options{})
	write(t, filepath.Join(dir, "ratelimit/config/d.yaml"), metricsPolicy)
	return dir, store, []string{
		"RUNTIME_ROOT=" + dir, "RUNTIME_SUBDIRECTORY=ratelimit", "RUNTIME_WATCH_ROOT=false", "LOCAL_CACHE_SIZE_IN_BYTES=1000",
		"REDIS_SOCKET_TYPE=tcp", "REDIS_URL=" + store.Address,
	}
}

// checkLines compares lines with those of a file.
func checkLines(t *testing.T, name string, lines []string) {
	t.Helper()
	path, got := filepath.Join("testdata/metrics", name), strings.Join(lines, "\n")+"\n"
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: -update writes what it is now:\n%s", path, got)
	}
}

// Every metric of envoyproxy/ratelimit is sent to statsd by its name, and no other: testdata/metrics/statsd.txt has them.
func TestMetricNames(t *testing.T) {
	t.Parallel()
	dir, store, env := prepare(t)
	stats := startStatsd(t)
	s := start(t, append(append(env, stats.env()...), "EXTRA_TAGS=host:a.b,none:", "SHADOW_MODE=true", "GOGC=10")...)
	awayFrom(time.Hour)
	s.everything(t)
	const tags = ".__host=a_b"
	write(t, filepath.Join(dir, "ratelimit/config/bad.yaml"), "domain: [")
	waitFor(t, "the bad file to be counted", func() bool { return stats.total("ratelimit.service.config_load_error"+tags) == 1 })
	if err := os.Remove(filepath.Join(dir, "ratelimit/config/bad.yaml")); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "what was good to be counted again", func() bool { return stats.total("ratelimit.service.config_load_success"+tags) == 2 })
	store.Kill()
	waitFor(t, "calls without Redis, and closed connections, to be counted", func() bool {
		_, _ = s.ask(t, &rlsv3.RateLimitRequest{Domain: "d", Descriptors: []*ratelimitv3.RateLimitDescriptor{{Entries: []*ratelimitv3.RateLimitDescriptor_Entry{{Key: "plain", Value: "new"}}}}})
		return stats.total("ratelimit.service.call.should_rate_limit.redis_error"+tags) > 0 && stats.total("ratelimit.redis_pool.cx_local_close"+tags) > 0
	})
	for name, want := range map[string]int64{"runtime.load_attempts" + tags: 3, "runtime.num_values" + tags: 1, "reserved_tag": 1, "ratelimit_server.Check.total_requests" + tags: 1} {
		if got := stats.total(name) + stats.gauge(name); got != want {
			t.Errorf("%s is %d, want %d", name, got, want)
		}
	}
	waitFor(t, "the last connection to be closed", func() bool {
		return stats.gauge("ratelimit.redis_pool.cx_active"+tags) == stats.total("ratelimit.redis_pool.cx_total"+tags)-stats.total("ratelimit.redis_pool.cx_local_close"+tags)
	})
	waitFor(t, "garbage to be collected", func() bool {
		return stats.total("ratelimit.go.numGC"+tags) > 0 && stats.total("ratelimit.go.pauseTotalNs"+tags) > 0
	})
	checkLines(t, "statsd.txt", stats.sent())
}

// What Prometheus reads has the names and labels that dashboards know, and counts from 0 on: testdata/metrics/prometheus.txt has
// them, but for what the program shows of itself on every port.
func TestPrometheusNames(t *testing.T) {
	t.Parallel()
	_, _, env := prepare(t)
	address := programtest.FreeAddress(t)
	s := start(t, append(env, "DISABLE_STATS=false", "USE_STATSD=false", "USE_PROMETHEUS=true", "PROMETHEUS_ADDR="+address)...)
	awayFrom(time.Hour)
	s.everything(t)
	var names []string
	for line := range strings.Lines(get(t, "http://"+address+"/metrics")) {
		ours := strings.HasPrefix(line, "ratelimitd_") || strings.HasPrefix(line, "go_") || strings.HasPrefix(line, "process_")
		if name, _, found := strings.Cut(line, " "); found && !ours && name != "#" {
			names = append(names, strings.TrimSpace(line[:strings.LastIndexByte(line, ' ')]))
		}
	}
	checkLines(t, "prometheus.txt", names)
}

// A counter is added, then increased, and found when it is read again.
func TestMemcacheMetrics(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "ratelimit/config/d.yaml"), metricsPolicy)
	stats := startStatsd(t)
	s := start(t, append(stats.env(), "RUNTIME_ROOT="+dir, "RUNTIME_SUBDIRECTORY=ratelimit", "EXTRA_TAGS=zone:z1",
		"BACKEND_TYPE=memcache", "MEMCACHE_HOST_PORT="+redistest.StartMemcached(t, redistest.MemcachedOptions{}).Address)...)
	awayFrom(time.Hour)
	for range 2 {
		s.statuses(t, "d", "plain", "v")
	}
	for name, want := range map[string]int64{
		"add.__code=success": 1, "increment.__code=success": 1, "multiget.__code=success": 2, "keys_requested": 2, "keys_found": 1,
	} {
		waitFor(t, name, func() bool { return stats.total("ratelimit.memcache."+name+".__zone=z1") == want })
	}
}
