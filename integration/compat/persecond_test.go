package compat

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/ratelimitd/ratelimitd/internal/redistest"
)

// Limits per second have a Redis of another shape than the others. A request with both is asked of both; when one Redis is gone
// only its limits are not decided, and when it is back they are.
func TestPerSecondRedis(t *testing.T) {
	cluster, single := redistest.StartCluster(t, redistest.Options{Password: "secret"}), redistest.Start(t, redistest.Options{Unix: true})
	dir := t.TempDir()
	write(t, filepath.Join(dir, "ratelimit/config/a.yaml"), `
domain: a
descriptors:
  - {key: fast, rate_limit: {unit: second, requests_per_unit: 1000}}
  - {key: slow, rate_limit: {unit: day, requests_per_unit: 1000}}
`)
	s := start(t, "RUNTIME_ROOT="+dir, "RUNTIME_SUBDIRECTORY=ratelimit", "HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED=true", "REDIS_URL="+single.Address,
		"REDIS_PERSECOND=true", "REDIS_PERSECOND_TYPE=cluster", "REDIS_PERSECOND_URL="+cluster.Masters[0].Address, "REDIS_PERSECOND_AUTH=secret")
	for _, pairs := range [][]string{{"fast", "x"}, {"slow", "x"}, {"fast", "y", "slow", "y"}} {
		if code, all := s.statuses(t, "a", pairs...); code != rlsv3.RateLimitResponse_OK || all[0].GetLimitRemaining() != 999 {
			t.Errorf("%v: %v %v", pairs, code, all)
		}
	}
	calls := 0
	for _, node := range cluster.Masters {
		calls += node.Calls(t, "evalsha")
	}
	if keys := single.Keys(t); calls < 2 || keys != 3 { // the third is for the replicas
		t.Errorf("%d calls for limits per second, and %d keys of the others", calls, keys)
	}
	series := s.page(t, "/metrics")
	for _, want := range []string{`ratelimitd_redis_up{limits="per_second"} 1`, `ratelimitd_redis_up{limits="other"} 1`, `ratelimitd_replicas 1`} {
		if !strings.Contains(series, want) {
			t.Errorf("no %s", want)
		}
	}

	decides := func(key string) bool {
		_, err := s.ask(t, request("a", key, "z"))
		return err == nil
	}
	for _, node := range cluster.Masters {
		node.Kill()
	}
	waitFor(t, "a limit per second to fail", func() bool { return !decides("fast") })
	for range 20 {
		if decides("fast") || !decides("slow") {
			t.Fatal("the one Redis is asked in place of the other")
		}
	}
	waitFor(t, "a word about it", func() bool {
		return strings.Contains(s.page(t, "/healthcheck"), "the store does not answer: the Redis of limits per second: ")
	})
	if s.health() != http.StatusOK {
		t.Error("not ready, though it has been")
	}
	for _, node := range cluster.Masters {
		node.Restart(t)
	}
	waitFor(t, "limits per second to be decided again", func() bool { return decides("fast") && decides("slow") })

	single.Kill()
	waitFor(t, "a limit per day to fail", func() bool { return !decides("slow") })
	for range 20 {
		if decides("slow") || !decides("fast") {
			t.Fatal("the one Redis is asked in place of the other")
		}
	}
}
