package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"

	"github.com/ratelimitd/ratelimitd/internal/otlptest"
	"github.com/ratelimitd/ratelimitd/internal/redistest"
	"github.com/ratelimitd/ratelimitd/pkg/settings"
)

const (
	traceID         = "0af7651916cd43dd8448eb211c80319c"
	callerID        = "b7ad6b7169203331"
	sampledParent   = "00-" + traceID + "-" + callerID + "-01"
	unsampledParent = "00-" + traceID + "-" + callerID + "-00"
)

// withTracing traces requests to a collector.
func withTracing(t *testing.T, collector *otlptest.Collector, ratio settings.Fraction) func(*settings.Settings) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.HTTP)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
	return func(s *settings.Settings) { s.Tracing, s.TracingSamplingRate = true, ratio }
}

// ways are those by which requests come: with headers, to a domain.
func ways(t *testing.T, p *program) map[string]func(domain string, headers map[string]string) {
	client := p.client(t)
	call := func(domain string, headers map[string]string, o ...grpc.CallOption) {
		ctx, cancel := context.WithTimeout(metadata.NewOutgoingContext(t.Context(), metadata.New(headers)), 10*time.Second)
		defer cancel()
		if _, err := client.ShouldRateLimit(ctx, request(domain, "user", secret), o...); err != nil {
			t.Error(err)
		}
	}
	return map[string]func(string, map[string]string){
		"grpc":       func(domain string, headers map[string]string) { call(domain, headers) },
		"compressed": func(domain string, headers map[string]string) { call(domain, headers, grpc.UseCompressor(gzip.Name)) },
		"json": func(domain string, headers map[string]string) {
			body := strings.NewReader(fmt.Sprintf(`{"domain": %q, "descriptors": [{"entries": [{"key": "user", "value": %q}]}]}`, domain, secret))
			r, err := http.NewRequest(http.MethodPost, "http://"+p.HTTP.String()+"/json", body)
			if err != nil {
				t.Fatal(err)
			}
			for name, value := range headers {
				r.Header.Set(name, value)
			}
			response, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Error(err)
				return
			}
			response.Body.Close()
		},
	}
}

// Requests are traced however they come, if their parent is, and say what was
// decided and no value.
func TestTracing(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/edge.yaml", "domain: edge\ndescriptors:\n  - {key: user, rate_limit: {requests_per_unit: 0, unit: hour}}\n")
	for _, store := range []string{settings.StoreMemory, settings.StoreRedis} {
		collector := otlptest.Start(t)
		options := []func(*settings.Settings){withPolicies(dir), withTracing(t, collector, 0)}
		if store == settings.StoreRedis {
			options = append(options, withRedis(redistest.Start(t, redistest.Options{}).URL(), settings.ReadyWithStore), func(s *settings.Settings) { s.KnownOverKeys = 0 })
		}
		p := start(t, options...)
		want := 0
		for name, ask := range ways(t, p) {
			for _, headers := range []map[string]string{{}, {"traceparent": unsampledParent}, {"traceparent": sampledParent + "0"}} {
				ask("edge", headers)
			}
			ask("edge", map[string]string{"traceparent": sampledParent, "tracestate": "a=1"})
			before := want
			want++
			if store == settings.StoreRedis {
				want++
			}
			spans := collector.Wait(t, want)[before:]
			if len(spans) != want-before {
				t.Fatalf("%s, %s: %d spans", store, name, len(spans))
			}
			for _, s := range spans {
				checkSpan(t, store+" "+name, &s)
			}
			if store == settings.StoreRedis && spans[0].Parent != spans[1].SpanID && spans[1].Parent != spans[0].SpanID {
				t.Errorf("%s: %+v", name, spans)
			}
		}
		if err := p.stop(); err != nil || len(collector.Spans()) != want {
			t.Errorf("%v, %d spans", err, len(collector.Spans()))
		}
		if text := collector.Text(); strings.Contains(text, secret[8:]) {
			t.Errorf("a value is in\n%s", text)
		}
	}
}

// checkSpan checks a span of a request that was denied.
func checkSpan(t *testing.T, what string, s *otlptest.Span) {
	t.Helper()
	if s.TraceID != traceID || s.Failed || s.End.Before(s.Start) || s.Resource["service.name"] != "ratelimitd" {
		t.Errorf("%s: %+v", what, s)
	}
	if s.Kind == "CLIENT" {
		if s.Name != "EVALSHA" || s.Attributes["db.system.name"] != "redis" {
			t.Errorf("%s: %+v", what, s)
		}
		return
	}
	name := "envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
	if strings.HasSuffix(what, "json") {
		name = "POST /json"
	}
	by, _ := s.Attributes["ratelimit.denied_by"].([]any)
	if s.Name != name || s.Parent != callerID || s.TraceState != "a=1" || s.Attributes["ratelimit.domain"] != "edge" ||
		s.Attributes["ratelimit.code"] != "OVER_LIMIT" || len(by) != 1 || by[0] != "edge/user" {
		t.Errorf("%s: %+v", what, s)
	}
}

// OTEL_SDK_DISABLED goes before the setting.
func TestTracingDisabled(t *testing.T) {
	t.Setenv("OTEL_SDK_DISABLED", "true")
	p := start(t, withTracing(t, otlptest.Start(t), 1))
	if _, text := page(t, "GET", p.HTTP.String()+"/metrics", ""); strings.Contains(text, "ratelimitd_traced_requests_total") {
		t.Error("it traces")
	}
}

// Without a parent the rate decides.
func TestTracingSamplingRate(t *testing.T) {
	for rate, bounds := range map[settings.Fraction][2]int{0.5: {20, 80}, 1: {100, 100}} {
		collector := otlptest.Start(t)
		p := start(t, withTracing(t, collector, rate))
		var asking sync.WaitGroup
		client := p.client(t)
		for range 100 {
			asking.Go(func() {
				if _, err := client.ShouldRateLimit(t.Context(), request("edge", "user", "x")); err != nil {
					t.Error(err)
				}
			})
		}
		asking.Wait()
		if err := p.stop(); err != nil {
			t.Error(err)
		}
		if n := len(collector.Spans()); n < bounds[0] || n > bounds[1] {
			t.Errorf("rate %v: %d of 100", rate, n)
		}
	}
}

// With a collector that hangs answers are as ever, and the program ends in time.
func TestTracingToNobody(t *testing.T) {
	collector := otlptest.Start(t)
	collector.Set(otlptest.Hangs)
	p := start(t, withTracing(t, collector, 1), func(s *settings.Settings) { s.ShutdownTimeout = 300 * time.Millisecond })
	client := p.client(t)
	for range 3000 {
		begin := time.Now()
		if _, err := client.ShouldRateLimit(t.Context(), request("edge", "user", "x")); err != nil || time.Since(begin) > 5*time.Second {
			t.Fatal(err, time.Since(begin))
		}
	}
	eventually(t, "requests are left out", func() bool {
		_, text := page(t, "GET", p.HTTP.String()+"/metrics", "")
		return strings.Contains(text, `ratelimitd_traced_requests_total{outcome="left_out"} `) && !strings.Contains(text, `{outcome="left_out"} 0`)
	})
	begin := time.Now()
	if err := p.stop(); err != nil || time.Since(begin) > 550*time.Millisecond {
		t.Errorf("%v; it took %v to stop", err, time.Since(begin))
	}
	if collector.Calls() == 0 {
		t.Error("nothing was sent")
	}
}

// A collector that hangs holds up the end of the program for a moment only, however long calls in flight may take then.
func TestTracingHoldsUpNoRestart(t *testing.T) {
	collector := otlptest.Start(t)
	collector.Set(otlptest.Hangs)
	p := start(t, withTracing(t, collector, 1), func(s *settings.Settings) { s.ShutdownTimeout = time.Minute })
	if _, err := p.client(t).ShouldRateLimit(t.Context(), request("edge", "user", "x")); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	if err := p.stop(); err != nil || time.Since(begin) > flushPatience+10*time.Second {
		t.Errorf("%v; it took %v to stop", err, time.Since(begin))
	}
}
