package integration

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ratelimitd/ratelimitd/internal/programtest"
	"github.com/ratelimitd/ratelimitd/internal/redistest"
)

// scriptRoute begins the part of a route in which its limits stand.
const scriptRoute = `  route: {cluster: backend}
  typed_per_filter_config:
    envoy.filters.http.ratelimit:
      "@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimitPerRoute
      domain: rl
      rate_limits:
`

// scriptRoutes send what the scripts ask about.
const scriptRoutes = `- match: {path: /get}
` + scriptRoute + `        - actions: [{source_cluster: {}}, {destination_cluster: {}}]
- match: {prefix: /path/}
` + scriptRoute + `        - actions: [{generic_key: {descriptor_key: path, descriptor_value: path}}, {request_headers: {header_name: foo, descriptor_key: foo}}]
        - actions: [{generic_key: {descriptor_key: path, descriptor_value: path}}, {request_headers: {header_name: shadow, descriptor_key: shadow}}]
        - actions: [{generic_key: {descriptor_key: path, descriptor_value: path}}, {request_headers: {header_name: measured, descriptor_key: measured}}]
- match: {path: /replaces}
` + scriptRoute + `        - actions: [{request_headers: {header_name: bkthomps, descriptor_key: bkthomps}}]
        - actions: [{request_headers: {header_name: raised, descriptor_key: raised}}]
        - actions: [{request_headers: {header_name: fake, descriptor_key: fake}}]
        - actions: [{request_headers: {header_name: both, descriptor_key: both}}]
- match: {path: /quota}
` + scriptRoute + `        - actions: [{generic_key: {descriptor_key: quota, descriptor_value: q}}, {generic_key: {descriptor_key: one, descriptor_value: q}}]
        - actions: [{generic_key: {descriptor_key: quota, descriptor_value: q}}, {generic_key: {descriptor_key: two, descriptor_value: q}}]
- match: {path: /refilled}
` + scriptRoute + `        - actions: [{generic_key: {descriptor_key: quota, descriptor_value: q}}, {generic_key: {descriptor_key: soon, descriptor_value: q}}]
- match: {path: /tokens}
` + scriptRoute + `        - actions: [{generic_key: {descriptor_key: tokens, descriptor_value: t}}]
          hits_addend: {number: 0}
        - actions: [{generic_key: {descriptor_key: tokens, descriptor_value: t}}]
          hits_addend: {number: 1}
          apply_on_stream_done: true
- match: {path: /services}
  response_headers_to_add: [{header: {key: x-service, value: "%DYNAMIC_METADATA(envoy.filters.http.ratelimit:metadata:service)%"}}]
` + scriptRoute + `        - actions: [{generic_key: {descriptor_key: service, descriptor_value: one}}]
          hits_addend: {number: 0}
        - actions: [{generic_key: {descriptor_key: service, descriptor_value: two}}]
          hits_addend: {number: 0}
        - actions: [{metadata: {descriptor_key: service, source: DYNAMIC, metadata_key: {key: envoy.filters.http.ratelimit, path: [{key: metadata}, {key: service}]}}}]
          hits_addend: {number: 1}
          apply_on_stream_done: true
`

// scripts asks the program in the place of envoyproxy/ratelimit through an Envoy.
type scripts struct {
	*client
	metrics string // the address of the page for Prometheus
}

// startScripts starts the program under the name ratelimit, and an Envoy.
func startScripts(t *testing.T) *scripts {
	t.Helper()
	root := t.TempDir()
	text, err := os.ReadFile("testdata/scripts/policies.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(root, "rl/config"), 0o700); err != nil {
		t.Fatal(err)
	}
	writePolicy(t, filepath.Join(root, "rl/config/rl.yaml"), string(text))
	s := &ratelimitd{grpc: programtest.FreeAddress(t), http: programtest.FreeAddress(t)}
	metrics := programtest.FreeAddress(t)
	port := func(address string) string { return address[strings.LastIndexByte(address, ':')+1:] }
	s.Process = startProcess(t, []string{
		"RUNTIME_ROOT=" + root, "RUNTIME_SUBDIRECTORY=rl", "REDIS_SOCKET_TYPE=tcp", "REDIS_URL=" + redistest.Start(t, redistest.Options{}).Address,
		"RESPONSE_DYNAMIC_METADATA=true", "USE_STATSD=false", "USE_PROMETHEUS=true", "PROMETHEUS_ADDR=" + metrics,
		"HOST=127.0.0.1", "GRPC_HOST=127.0.0.1", "PORT=" + port(s.http), "GRPC_PORT=" + port(s.grpc), "DEBUG_PORT=" + port(programtest.FreeAddress(t)),
	}, asRatelimit(t))
	s.waitReady(t)
	return &scripts{startEnvoy(t, envoyOptions{ratelimitd: []string{s.grpc}, routes: scriptRoutes}).client(t, ""), metrics}
}

// wants asks again and again, and checks each status.
func (s *scripts) wants(t *testing.T, path, headers string, statuses ...int) {
	t.Helper()
	for i, want := range statuses {
		if got := s.mustGet(t, path, strings.Split(headers, ", ")...); got.status != want {
			t.Errorf("%s with %s, request %d: status %d, want %d", path, headers, i+1, got.status, want)
		}
	}
}

// total is the value of a series of the page for Prometheus, 0 if there is none.
func (s *scripts) total(t *testing.T, series string) (n int) {
	t.Helper()
	response, err := http.Get("http://" + s.metrics + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if _, after, found := strings.Cut(string(text), "\n"+series+" "); found {
		fmt.Sscan(after, &n)
	}
	return n
}

// The end-to-end scripts of envoyproxy/ratelimit, by their names. Where one waits a minute, a limit per second is asked.
func TestScripts(t *testing.T) {
	s := startScripts(t)
	const ok, over = http.StatusOK, http.StatusTooManyRequests
	awayFromBoundary(t, time.Hour)
	awayFromBoundary(t, time.Minute)

	t.Run("simple-get", func(t *testing.T) { s.wants(t, "/get", "x: y", ok) })
	t.Run("trigger-ratelimit", func(t *testing.T) {
		s.wants(t, "/path/", "foo: pelle", ok, ok, ok, over)
		s.wants(t, "/path/", "foo: lisa", ok)
	})
	t.Run("trigger-shadow-mode-key", func(t *testing.T) {
		s.wants(t, "/path/", "shadow: s", ok, ok, ok, ok, ok)
		if n := s.total(t, `ratelimit_service_rate_limit_shadow_mode{domain="rl",key1="path",key2="shadow"}`); n != 2 {
			t.Errorf("%d requests would have been denied, want 2", n)
		}
	})
	t.Run("replaces", func(t *testing.T) {
		s.wants(t, "/replaces", "bkthomps: a", ok, ok, over)
		s.wants(t, "/replaces", "bkthomps: b, raised: b", ok, ok, ok, ok, over)
		s.wants(t, "/replaces", "bkthomps: b", ok) // which the raised one did not count on
		s.wants(t, "/replaces", "fake: c", ok, over)
		s.wants(t, "/replaces", "bkthomps: d, fake: d, both: d", ok, ok, ok, over)
	})
	t.Run("value-included-in-stats-key-when-unspecified", func(t *testing.T) {
		s.wants(t, "/path/", "measured: m1", ok, ok)
		if n := s.total(t, `ratelimit_service_rate_limit_total_hits{domain="rl",key1="path_path",key2="measured_m1"}`); n != 2 {
			t.Errorf("%d hits under the value, want 2", n)
		}
	})
	t.Run("quota", func(t *testing.T) {
		s.wants(t, "/quota", "x: y", ok, ok, over)
		waitFor(t, 10*time.Second, "a quota to be used up", func() bool { return s.mustGet(t, "/refilled").status == over })
		waitFor(t, 10*time.Second, "it to be filled again", func() bool { return s.mustGet(t, "/refilled").status == ok })
	})
	t.Run("token-quota", func(t *testing.T) {
		for charged := 1; charged <= 3; charged++ {
			s.wants(t, "/tokens", "x: y", ok)
			waitFor(t, 10*time.Second, "the charge after the answer", func() bool {
				return s.total(t, `ratelimit_service_rate_limit_total_hits{domain="rl",key1="tokens"}`) == charged
			})
		}
		s.wants(t, "/tokens", "x: y", over)
	})
	t.Run("multiservice-tokenquota", func(t *testing.T) {
		for i, want := range []string{"one", "one", "two", "two", "two"} {
			got := s.mustGet(t, "/services")
			if service := got.header.Get("X-Service"); got.status != ok || service != want {
				t.Fatalf("request %d: status %d from service %q, want %q", i+1, got.status, service, want)
			}
			waitFor(t, 10*time.Second, "the charge after the answer", func() bool {
				return s.total(t, `ratelimit_service_rate_limit_total_hits{domain="rl",key1="service_one"}`)+
					s.total(t, `ratelimit_service_rate_limit_total_hits{domain="rl",key1="service_two"}`) == i+1
			})
		}
		s.wants(t, "/services", "x: y", over)
	})
}
