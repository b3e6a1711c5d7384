package compat

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/ratelimitd/ratelimitd/internal/otlptest"
)

// With the variables that Envoy Gateway sets for tracing, by either protocol, requests are traced, Redis' part of them too. What
// waits to be sent at the end is sent.
func TestTracing(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "ratelimit/config/basic.yaml"), basicPolicy)
	store := redis(t)
	for _, protocol := range []string{"", "grpc"} {
		collector := otlptest.Start(t)
		env := append([]string{
			"RUNTIME_ROOT=" + dir, "RUNTIME_SUBDIRECTORY=ratelimit",
			"TRACING_ENABLED=true", "TRACING_SERVICE_NAME=envoy-ratelimit", "TRACING_SERVICE_NAMESPACE=envoy-gateway-system",
			"TRACING_SERVICE_INSTANCE_ID=envoy-ratelimit-0", "TRACING_SAMPLING_RATE=1.0", "OTEL_EXPORTER_OTLP_ENDPOINT=" + collector.HTTP,
		}, store...)
		if protocol != "" {
			env = append(env, "TRACING_EXPORTER_PROTOCOL="+protocol, "OTEL_EXPORTER_OTLP_ENDPOINT="+collector.GRPC)
		}
		s := start(t, env...)
		if code, _ := s.statuses(t, "basic", "key1", "somebody"); code != rlsv3.RateLimitResponse_OK {
			t.Error(code)
		}
		spans := s.end(t, collector)
		if len(spans) != 2 || strings.Contains(collector.Text(), "somebody") {
			t.Fatalf("%d spans:\n%s", len(spans), collector.Text())
		}
		for _, span := range spans {
			if who := fmt.Sprint(span.Resource["service.name"], span.Resource["service.namespace"], span.Resource["service.instance.id"]); who != "envoy-ratelimit"+"envoy-gateway-system"+"envoy-ratelimit-0" {
				t.Error(who)
			}
			want := "envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
			if span.Kind == "CLIENT" {
				want = "EVALSHA"
			}
			if span.Name != want || span.TraceID != spans[0].TraceID {
				t.Errorf("%+v", span)
			}
		}
	}
}

// No request that is part of no trace is traced at a rate of 0.
func TestTracingSamplingRateOfZero(t *testing.T) {
	collector := otlptest.Start(t)
	s := start(t, append(redis(t), "TRACING_ENABLED=true", "TRACING_SAMPLING_RATE=0", "OTEL_EXPORTER_OTLP_ENDPOINT="+collector.HTTP)...)
	s.statuses(t, "basic", "key1", "somebody")
	if spans := s.end(t, collector); len(spans) != 0 {
		t.Errorf("%d spans", len(spans))
	}
}

// end stops the program and returns what it has sent.
func (s *server) end(t *testing.T, collector *otlptest.Collector) []otlptest.Span {
	t.Helper()
	s.Terminate(t, 20*time.Second)
	return collector.Spans()
}
