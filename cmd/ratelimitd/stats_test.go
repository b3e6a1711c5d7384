package main

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/ratelimitd/ratelimitd/pkg/settings"
)

// What is decided is told to a statsd server, under the names of envoyproxy/ratelimit.
func TestStatsd(t *testing.T) {
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	dir := t.TempDir()
	write(t, dir+"/p.yaml", "domain: d\ndescriptors: [{key: k, value: v, rate_limit: {unit: hour, requests_per_unit: 1}}]\n")
	p := start(t, withPolicies(dir), func(s *settings.Settings) {
		s.StatsdAddress, s.StatsdInterval, s.StatsdTags = server.LocalAddr().String(), 10*time.Millisecond, "zone=z1"
	})
	for range 3 {
		if _, err := p.client(t).ShouldRateLimit(t.Context(), request("d", "k", "v")); err != nil {
			t.Fatal(err)
		}
	}
	totals := make(map[string]int)
	packet := make([]byte, 1<<16)
	_ = server.SetReadDeadline(time.Now().Add(10 * time.Second))
	const rule = "ratelimit.service.rate_limit.d.k_v."
	for totals[rule+"over_limit"] < 2 || totals["ratelimit_server.ShouldRateLimit.total_requests"] < 3 || totals["ratelimit.service.config_load_success"] < 1 {
		n, _, err := server.ReadFrom(packet)
		if err != nil {
			t.Fatal(err, totals)
		}
		for line := range strings.Lines(string(packet[:n])) {
			if name, delta, ok := strings.Cut(strings.TrimSuffix(line, "|c\n"), ".__zone=z1:"); ok && len(delta) == 1 {
				totals[name] += int(delta[0] - '0')
			}
		}
	}
	if totals[rule+"total_hits"] != 3 || totals[rule+"within_limit"] != 1 {
		t.Error(totals)
	}
}
