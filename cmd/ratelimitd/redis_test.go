package main

import (
	"strings"
	"testing"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
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

// TestWithoutRedis starts the program while Redis is away, and takes it away
// again. Each readiness has a program of its own.
func TestWithoutRedis(t *testing.T) {
	redis := redistest.Start(t, redistest.Options{})
	redis.Kill()
	type state map[string]int // readiness → what /healthcheck answers
	programs := map[string]*program{}
	for _, readiness := range []string{settings.ReadyWithPolicies, settings.ReadyWithFirstContact, settings.ReadyWithStore} {
		programs[readiness] = start(t, withRedis(redis.URL(), readiness))
	}
	expect := func(when string, want state) {
		t.Helper()
		for readiness, p := range programs {
			eventually(t, when+", "+readiness, func() bool {
				code, _ := page(t, "GET", p.HTTP.String()+"/healthcheck", "")
				return code == want[readiness]
			})
		}
	}
	expect("without Redis", state{settings.ReadyWithPolicies: 200, settings.ReadyWithFirstContact: 503, settings.ReadyWithStore: 503})

	// What each limit says of a store error holds.
	client := programs[settings.ReadyWithPolicies].client(t)
	if _, err := client.ShouldRateLimit(t.Context(), request("edge", "user", "alice")); status.Code(err) != codes.Unavailable {
		t.Errorf("on_store_error: error gives %v", err)
	}
	if reply, err := client.ShouldRateLimit(t.Context(), request("login", "one_time_password", "alice")); err != nil || reply.OverallCode != rlsv3.RateLimitResponse_OVER_LIMIT {
		t.Errorf("on_store_error: deny gives %v, %v", reply, err)
	}
	if code, text := page(t, "POST", programs[settings.ReadyWithPolicies].HTTP.String()+"/json", `{"domain":"edge","descriptors":[{"entries":[{"key":"user","value":"a"}]}]}`); code != 503 {
		t.Errorf("/json: %d %s", code, text)
	}

	redis.Restart(t)
	expect("Redis comes", state{settings.ReadyWithPolicies: 200, settings.ReadyWithFirstContact: 200, settings.ReadyWithStore: 200})
	if _, err := client.ShouldRateLimit(t.Context(), request("edge", "user", "alice")); err != nil {
		t.Errorf("with Redis: %v", err)
	}

	redis.Kill()
	expect("Redis goes", state{settings.ReadyWithPolicies: 200, settings.ReadyWithFirstContact: 200, settings.ReadyWithStore: 503})
	eventually(t, "health says so", func() bool {
		_, text := page(t, "GET", programs[settings.ReadyWithFirstContact].HTTP.String()+"/healthcheck", "")
		return strings.HasPrefix(text, "OK\ndegraded: ")
	})
}
