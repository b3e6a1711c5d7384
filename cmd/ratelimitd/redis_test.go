package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/ratelimitd/ratelimitd/internal/redistest"
	"github.com/ratelimitd/ratelimitd/pkg/settings"
)

func withRedis(url, readiness string) func(*settings.Settings) {
	return func(s *settings.Settings) {
		s.Store, s.RedisURL, s.Readiness = settings.StoreRedis, settings.URL(url), readiness
	}
}

// TestTwoReplicasShareOneCount on one Redis.
func TestTwoReplicasShareOneCount(t *testing.T) {
	redis := redistest.Start(t, redistest.Options{Password: "hunter2"})
	replicas := [...]*program{
		start(t, withRedis(redis.URL(), settings.ReadyWithStore)),
		start(t, withRedis(redis.URL(), settings.ReadyWithPolicies)),
	}
	allowed := 0
	for i := range 30 {
		p := replicas[i%2]
		eventually(t, "ready", func() bool {
			code, _ := page(t, "GET", p.HTTP.String()+"/healthcheck", "")
			return code == 200
		})
		reply, err := p.client(t).ShouldRateLimit(t.Context(), request("login", "one_time_password", "alice"))
		if err != nil {
			t.Fatal(err)
		}
		if reply.OverallCode == rlsv3.RateLimitResponse_OK {
			allowed++
		}
	}
	if allowed != 5 {
		t.Errorf("%d were allowed, want 5", allowed)
	}
	for _, p := range replicas {
		if log := p.log.String(); strings.Contains(log, "hunter2") {
			t.Errorf("the password is in the log:\n%s", log)
		}
	}
}

// TestPerSecondRedis has the counters of limits per second in a Redis of their own, which is logged in to as its URL says.
func TestPerSecondRedis(t *testing.T) {
	perSecond, other := redistest.Start(t, redistest.Options{Password: "hunter2"}), redistest.Start(t, redistest.Options{Password: "hunter3"})
	p := start(t, withRedis("redis://"+other.Address, settings.ReadyWithStore), func(s *settings.Settings) {
		s.RedisPassword, s.RedisPerSecondURL = "hunter3", settings.URL(perSecond.URL())
		s.Policies = t.TempDir()
		const policy = "domain: a\ndescriptors:\n  - {key: k, rate_limit: {unit: second, requests_per_unit: 5}}\n"
		if err := os.WriteFile(filepath.Join(s.Policies, "a.yaml"), []byte(policy), 0o600); err != nil {
			t.Fatal(err)
		}
	})
	eventually(t, "both are ready", func() bool { return probes(t, p) })
	if _, err := p.client(t).ShouldRateLimit(t.Context(), request("a", "k", "v")); err != nil {
		t.Fatal(err)
	}
	if perSecond.Calls(t, "evalsha") == 0 || other.Calls(t, "evalsha") != 0 {
		t.Error("it is the other Redis that was asked")
	}
	if log := p.log.String(); strings.Contains(log, "hunter") {
		t.Errorf("a password is in the log:\n%s", log)
	}
}

// probes are what orchestrators learn of a program: whether it is ready, by
// HTTP and by gRPC, which must agree. It fails the test if the program does not
// say that it lives.
func probes(t *testing.T, p *program) (ready bool) {
	t.Helper()
	client := healthpb.NewHealthClient(p.dial(t))
	status := func(name string) healthpb.HealthCheckResponse_ServingStatus {
		got, err := client.Check(t.Context(), &healthpb.HealthCheckRequest{Service: name})
		if err != nil {
			t.Fatal(err)
		}
		return got.Status
	}
	if got := status(""); got != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("liveness is %v", got)
	}
	eventually(t, "readiness by HTTP is that by gRPC", func() bool {
		code, text := page(t, "GET", p.HTTP.String()+"/healthcheck", "")
		if code != http.StatusOK && code != http.StatusServiceUnavailable {
			t.Fatalf("/healthcheck: %d %s", code, text)
		}
		ready = code == http.StatusOK
		return ready == (status("ratelimit") == healthpb.HealthCheckResponse_SERVING)
	})
	return ready
}

// everyReadiness are programs with a store in Redis, one for each readiness.
func everyReadiness(t *testing.T, url string, change ...func(*settings.Settings)) (expect func(when string, ready ...string)) {
	t.Helper()
	programs := map[string]*program{}
	for _, readiness := range []string{settings.ReadyWithPolicies, settings.ReadyWithFirstContact, settings.ReadyWithStore} {
		programs[readiness] = start(t, append(change, withRedis(url, readiness))...)
	}
	return func(when string, ready ...string) {
		t.Helper()
		for readiness, p := range programs {
			eventually(t, when+", "+readiness, func() bool { return probes(t, p) == slices.Contains(ready, readiness) })
		}
	}
}

// TestReadinessAndLiveness: Redis and the policies are away at the start, come in
// either order, and Redis goes, hangs and comes back. Only readiness follows, as
// the setting says, and by itself.
func TestReadinessAndLiveness(t *testing.T) {
	for _, policiesFirst := range []bool{true, false} {
		t.Run(fmt.Sprintf("policiesFirst=%v", policiesFirst), func(t *testing.T) {
			redis := redistest.Start(t, redistest.Options{})
			redis.Kill()
			dir := t.TempDir() + "/later"
			expect := everyReadiness(t, redis.URL(), withPolicies(dir))
			expect("nothing is there")
			if policiesFirst {
				write(t, dir+"/a.yaml", policy("7"))
				expect("policies are there", settings.ReadyWithPolicies)
				redis.Restart(t)
			} else {
				redis.Restart(t)
				expect("Redis is there")
				write(t, dir+"/a.yaml", policy("7"))
			}
			all := []string{settings.ReadyWithPolicies, settings.ReadyWithFirstContact, settings.ReadyWithStore}
			expect("all is there", all...)
			redis.Pause()
			expect("Redis hangs", settings.ReadyWithPolicies, settings.ReadyWithFirstContact)
			redis.Resume()
			expect("it goes on", all...)
			redis.Kill()
			expect("Redis goes", settings.ReadyWithPolicies, settings.ReadyWithFirstContact)
			redis.Restart(t)
			expect("it comes back", all...)
		})
	}
}

// TestWithoutRedis: what each limit says of a store error holds before Redis has
// been seen and after it has gone, and health says that something is wrong.
func TestWithoutRedis(t *testing.T) {
	redis := redistest.Start(t, redistest.Options{})
	redis.Kill()
	p := start(t, withRedis(redis.URL(), settings.ReadyWithPolicies))
	client := p.client(t)
	away := func() {
		t.Helper()
		if _, err := client.ShouldRateLimit(t.Context(), request("edge", "user", "alice")); status.Code(err) != codes.Unavailable {
			t.Errorf("on_store_error: error gives %v", err)
		}
		if reply, err := client.ShouldRateLimit(t.Context(), request("login", "one_time_password", "alice")); err != nil || reply.OverallCode != rlsv3.RateLimitResponse_OVER_LIMIT {
			t.Errorf("on_store_error: deny gives %v, %v", reply, err)
		}
		if code, text := page(t, "POST", p.HTTP.String()+"/json", `{"domain":"edge","descriptors":[{"entries":[{"key":"user","value":"a"}]}]}`); code != http.StatusServiceUnavailable {
			t.Errorf("/json: %d %s", code, text)
		}
		eventually(t, "health says so", func() bool {
			_, text := page(t, "GET", p.HTTP.String()+"/healthcheck", "")
			return strings.HasPrefix(text, "OK\ndegraded: the store does not answer: ")
		})
	}
	away()
	for range 2 {
		redis.Restart(t)
		eventually(t, "Redis is there", func() bool {
			_, err := client.ShouldRateLimit(t.Context(), request("edge", "user", "alice"))
			return err == nil
		})
		redis.Kill()
		away()
	}
}
