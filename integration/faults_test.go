package integration

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/ratelimitd/ratelimitd/internal/programtest"
	"github.com/ratelimitd/ratelimitd/internal/redistest"
)

// What a client gets when Redis is away is set for each limit, and what it gets when ratelimitd is away is set in Envoy.
func TestFaults(t *testing.T) {
	policies := policyDir(t, `
domain: edge
descriptors:
  - {key: user, value: allow, rate_limit: {requests_per_unit: 2, window: 100h, on_store_error: allow}}
  - {key: user, value: deny, rate_limit: {requests_per_unit: 2, window: 100h, on_store_error: deny}}
  - {key: user, value: error, rate_limit: {requests_per_unit: 2, window: 100h, on_store_error: error}}
`)
	awayFromBoundary(t, longWindow)
	redis := redistest.Start(t, redistest.Options{})
	server := serve(t, policies, "RATELIMITD_STORE=redis", "RATELIMITD_REDIS_URL="+redis.URL())
	envoy := startEnvoy(t, envoyOptions{ratelimitd: []string{server.grpc}})
	run := func(want map[string]int) {
		t.Helper()
		for user, status := range want {
			ask{1, "/user", "", []string{"x-user-id: " + user}, status}.run(t, envoy)
		}
	}
	const allowed, refused = http.StatusOK, http.StatusTooManyRequests

	run(map[string]int{"allow": allowed, "deny": allowed, "error": allowed})
	envoy.wantNoErrors(t)

	redis.Kill()
	for range 3 { // more than the limit
		run(map[string]int{"allow": allowed, "deny": refused})
	}
	envoy.wantNoErrors(t)

	// An error goes to Envoy, which lets the request through, since failure_mode_deny is false.
	run(map[string]int{"error": allowed})
	if n := envoy.stat(t, "cluster.backend.ratelimit.failure_mode_allowed"); n != 1 {
		t.Errorf("Envoy let %d requests through on an error, want 1", n)
	}

	redis.Restart(t)
	client := envoy.client(t, "")
	waitFor(t, 10*time.Second, "limits to be back with Redis", func() bool {
		return client.mustGet(t, "/user", "x-user-id: deny").status == allowed
	})
	ask{1, "/user", "", []string{"x-user-id: deny"}, allowed}.run(t, envoy)
	ask{1, "/user", "", []string{"x-user-id: deny"}, refused}.run(t, envoy)

	server.Kill()
	run(map[string]int{"allow": allowed, "deny": allowed, "error": allowed})
}

// ratelimitd starts without Redis, says that it is not ready, and becomes ready when Redis is there.
func TestStartsWithoutRedis(t *testing.T) {
	port := programtest.FreePort(t)
	server := newRatelimitd(t, policyDir(t, userPolicy(1)), "RATELIMITD_STORE=redis", "RATELIMITD_REDIS_URL="+fmt.Sprintf("redis://127.0.0.1:%d", port))
	server.launch(t)
	waitFor(t, 20*time.Second, "ratelimitd to answer health checks", func() bool { return server.health() >= http.StatusInternalServerError })
	redistest.Start(t, redistest.Options{Port: port})
	server.waitReady(t)

	client := startEnvoy(t, envoyOptions{ratelimitd: []string{server.grpc}}).client(t, "")
	for _, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
		if got := client.mustGet(t, "/user", "x-user-id: alice").status; got != want {
			t.Errorf("status %d, want %d", got, want)
		}
	}
}
