package main

import (
	"strings"
	"testing"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/ratelimitd/ratelimitd/internal/redistest"
	"github.com/ratelimitd/ratelimitd/pkg/settings"
)

const regionalPolicy = `domain: edge
descriptors:
  - key: own
    rate_limit: {requests_per_unit: 5, window: 876000h}
  - key: shared
    rate_limit: {requests_per_unit: 5, window: 876000h, region: shared}
  - key: both
    rate_limits:
      - {requests_per_unit: 4, window: 876000h}
      - {requests_per_unit: 6, window: 876000h, region: shared}
`

// TestRegionsOnOneRedis has a replica in each of two regions, and a second one
// in the first: what is not shared has a count in each region.
func TestRegionsOnOneRedis(t *testing.T) {
	redis := redistest.Start(t, redistest.Options{})
	dir := t.TempDir()
	write(t, dir+"/edge.yaml", regionalPolicy)
	in := func(region settings.Name) *program {
		return start(t, withPolicies(dir), withRedis(redis.URL(), settings.ReadyWithStore), func(s *settings.Settings) { s.Region = region })
	}
	replicas := []*program{in("eu"), in("us"), in("eu")}
	var clients []rlsv3.RateLimitServiceClient
	for _, p := range replicas {
		clients = append(clients, p.client(t))
		eventually(t, "ready", func() bool {
			code, _ := page(t, "GET", p.HTTP.String()+"/healthcheck", "")
			return code == 200
		})
	}
	for key, want := range map[string]int{"own": 5 + 5, "shared": 5, "both": 6} {
		allowed := 0
		for i := range 30 {
			reply, err := clients[i%3].ShouldRateLimit(t.Context(), request("edge", key, "alice"))
			if err != nil {
				t.Fatal(err)
			}
			if reply.OverallCode == rlsv3.RateLimitResponse_OK {
				allowed++
			}
		}
		if allowed != want {
			t.Errorf("%s: %d were allowed, want %d", key, allowed, want)
		}
	}
	// A region alone meets its own limit before that of all.
	for i := range 6 {
		reply, err := clients[2*(i%2)].ShouldRateLimit(t.Context(), request("edge", "both", "bob"))
		if err != nil || (reply.OverallCode == rlsv3.RateLimitResponse_OK) != (i < 4) {
			t.Errorf("request %d of one region: %v, %v", i+1, reply, err)
		}
	}
	if _, text := page(t, "GET", replicas[0].Admin.String()+"/rules", ""); strings.Count(text, "region eu") != 2 {
		t.Errorf("/rules:\n%s", text)
	}
}
