package main

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ratelimitd/ratelimitd/pkg/compat"
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

// compatWith is the program in the place of envoyproxy/ratelimit, with so many variables.
func compatWith(t *testing.T, environ ...string) *Main {
	t.Helper()
	s, _, err := compat.Load(environ)
	if err != nil {
		t.Fatal(err)
	}
	return &Main{Settings: &s.Settings, Compat: s, log: slog.New(slog.DiscardHandler)}
}

// The page of Prometheus has a port and a path of its own, and shows the program's own metrics besides.
func TestPrometheusPage(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "ratelimitd_own", Help: "One of the program's own."}))
	rules := t.TempDir() + "/conf.yaml"
	write(t, rules, "mappings: [{match: ratelimit_server.*.total_requests, name: asked, labels: {method: $1}}]\n")
	m := compatWith(t, "USE_STATSD=false", "USE_PROMETHEUS=true", "PROMETHEUS_ADDR=127.0.0.1:0", "PROMETHEUS_PATH=/m", "EXTRA_TAGS=zone:z1", "PROMETHEUS_MAPPER_YAML="+rules)
	stats, err := m.openStats(registry)
	if err != nil {
		t.Fatal(err)
	}
	defer stats.close()
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { stats.run(ctx) })
	stats.meter().Answered(time.Millisecond, 2)
	code, text := page(t, "GET", stats.listener.Addr().String()+"/m", "")
	for _, want := range []string{"asked{method=\"ShouldRateLimit\",zone=\"z1\"} 2\n", "\nratelimitd_own 0\n", "\nratelimit_go_numGoroutine{zone=\"z1\"} "} {
		if code != 200 || !strings.Contains(text, want) {
			t.Errorf("%d, no %q in\n%s", code, want, text)
		}
	}
	stop()
	running.Wait()
}

// A path may be any text, and a mapping may give a metric the name of one that there is: the others are shown.
func TestPrometheusPageWithNonsense(t *testing.T) {
	rules := t.TempDir() + "/conf.yaml"
	write(t, rules, "mappings: [{match: ratelimit_server.*.total_requests, name: ratelimitd_own}]\n")
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "ratelimitd_own", Help: "One of the program's own."}))
	for path, asked := range map[string]string{"/{a": "/%7Ba", "//": "//", "/a/../b": "/a/../b", "/{x...}": "/%7Bx...%7D", "a b": "/a%20b"} {
		stats, err := compatWith(t, "USE_STATSD=false", "USE_PROMETHEUS=true", "PROMETHEUS_ADDR=127.0.0.1:0", "PROMETHEUS_PATH="+path, "PROMETHEUS_MAPPER_YAML="+rules).openStats(registry)
		if err != nil {
			t.Fatal(err)
		}
		stats.meter().Answered(time.Millisecond, 2)
		for url, want := range map[string]int{asked: http.StatusOK, "/other": http.StatusNotFound} {
			answer := httptest.NewRecorder()
			stats.page.Handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, url, http.NoBody))
			if answer.Code != want || want == http.StatusOK && !strings.Contains(answer.Body.String(), "ratelimit_go_numGoroutine") {
				t.Errorf("%s, %s: %d\n%s", path, url, answer.Code, answer.Body)
			}
		}
		stats.close()
	}
}

// Mogrifiers are read by their names, and what is wrong with one stops the start.
func TestMogrifierVariables(t *testing.T) {
	environ := []string{"USE_STATSD=false", "USE_DOG_STATSD=true", "USE_DOG_STATSD_MOGRIFIERS=HITS", "DOG_STATSD_MOGRIFIER_HITS_PATTERN=(.*)", "DOG_STATSD_MOGRIFIER_HITS_NAME=$1"}
	if stats, err := compatWith(t, environ...).openStats(prometheus.NewRegistry()); err != nil || stats.sender == nil {
		t.Error(err)
	}
	_, err := compatWith(t, append(environ, "DOG_STATSD_MOGRIFIER_HITS_TAGS=a:$1,b")...).openStats(prometheus.NewRegistry())
	if err == nil || err.Error() != `DOG_STATSD_MOGRIFIER_HITS: the tag "b" is not name:value` {
		t.Error(err)
	}
}
