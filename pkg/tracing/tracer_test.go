package tracing

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/grpc/codes"

	"github.com/ratelimitd/ratelimitd/internal/otlptest"
	"github.com/ratelimitd/ratelimitd/internal/programtest"
)

// open opens a tracer and returns its log.
func open(t testing.TB, o Options, env ...string) (*Tracer, *programtest.Journal) {
	t.Helper()
	for _, e := range append([]string{"OTEL_BSP_SCHEDULE_DELAY=20"}, env...) {
		name, value, _ := strings.Cut(e, "=")
		t.Setenv(name, value)
	}
	log := &programtest.Journal{}
	o.Log = slog.New(slog.NewTextHandler(log, nil))
	tracer, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
		defer cancel()
		tracer.Close(ctx)
	})
	return tracer, log
}

// denied is an outcome with all that there is.
func denied(at time.Time) *Outcome {
	return &Outcome{
		Domain: "edge", Descriptors: 2, Code: "OVER_LIMIT", DeniedBy: []string{"edge/user", "edge/path=/login"}, DegradedBy: "local",
		Method: "p.S/M", Store: Store{System: "redis", Operation: "EVALSHA", Asked: at.Add(time.Millisecond), Decided: at.Add(3 * time.Millisecond), Failure: errors.New("gone\xff")},
	}
}

func TestSpans(t *testing.T) {
	for _, protocol := range []string{HTTP, GRPC} {
		t.Run(protocol, func(t *testing.T) {
			collector := otlptest.Start(t)
			endpoint := collector.HTTP
			if protocol == GRPC {
				endpoint = collector.GRPC
			}
			tracer, log := open(t, Options{Ratio: 1, Protocol: protocol, Service: Service{Name: "RateLimit", Namespace: "ns", Instance: "i", Version: "v"}},
				"OTEL_EXPORTER_OTLP_ENDPOINT="+endpoint, "OTEL_EXPORTER_OTLP_HEADERS=token=secret", "OTEL_EXPORTER_OTLP_COMPRESSION=gzip",
				"OTEL_SERVICE_NAME=other", "OTEL_RESOURCE_ATTRIBUTES=deployment.environment.name=test,service.namespace=other")
			at := time.Now().Add(-5 * time.Millisecond)
			parent := ParentOf(headers(sampledParent, "a=1"))
			tracer.Begin(&parent, at).End(denied(at))
			spans := collector.Wait(t, 2)
			store, request := spans[0], spans[1]
			if request.Kind == "CLIENT" {
				store, request = request, store
			}
			if request.Name != "p.S/M" || request.Kind != "SERVER" || request.Failed || !request.Start.Equal(at.Truncate(1)) || request.End.Sub(at) < 5*time.Millisecond ||
				request.TraceID != sampledParent[3:35] || request.Parent != sampledParent[36:52] || request.TraceState != "a=1" {
				t.Errorf("request: %+v", request)
			}
			if store.Name != "EVALSHA" || store.Kind != "CLIENT" || !store.Failed || store.TraceID != request.TraceID || store.Parent != request.SpanID ||
				store.End.Sub(store.Start) != 2*time.Millisecond || store.Attributes["db.system.name"] != "redis" {
				t.Errorf("store: %+v", store)
			}
			for key, want := range map[string]any{
				"rpc.system.name": "grpc", "rpc.method": "p.S/M", "rpc.response.status_code": "OK",
				"ratelimit.domain": "edge", "ratelimit.descriptors": int64(2), "ratelimit.code": "OVER_LIMIT", "ratelimit.degraded_by": "local",
			} {
				if got := request.Attributes[key]; got != want {
					t.Errorf("%s: %v, want %v", key, got, want)
				}
			}
			if by, _ := request.Attributes["ratelimit.denied_by"].([]any); len(by) != 2 || by[1] != "edge/path=/login" {
				t.Errorf("denied by %v", by)
			}
			for key, want := range map[string]any{
				"service.name": "RateLimit", "service.namespace": "ns", "service.instance.id": "i", "service.version": "v",
				"deployment.environment.name": "test", "telemetry.sdk.language": "go",
			} {
				if got := request.Resource[key]; got != want {
					t.Errorf("%s: %v, want %v", key, got, want)
				}
			}
			if collector.Header("token") != "secret" || log.String() != "" {
				t.Errorf("token %q, log %q", collector.Header("token"), log)
			}
		})
	}
}

// What nobody says is said by default; what variables say holds.
func TestServiceByDefault(t *testing.T) {
	for name, want := range map[string]string{"": "ratelimitd", "edge-limits": "edge-limits"} {
		collector := otlptest.Start(t)
		tracer, _ := open(t, Options{Ratio: 1}, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=grpc", "OTEL_EXPORTER_OTLP_ENDPOINT="+collector.GRPC, "OTEL_SERVICE_NAME="+name)
		tracer.Begin(&Parent{}, time.Now()).End(&Outcome{Method: "p.S/M", Status: codes.Unavailable})
		span := collector.Wait(t, 1)[0]
		if id, _ := span.Resource["service.instance.id"].(string); span.Resource["service.name"] != want || len(id) != 36 || span.Resource["service.namespace"] != nil {
			t.Errorf("%v", span.Resource)
		}
		if !span.Failed || span.Attributes["error.type"] != "UNAVAILABLE" || span.Parent != "" {
			t.Errorf("%+v", span)
		}
	}
}

func TestChoice(t *testing.T) {
	unsampled, sampled := ParentOf(headers(unsampledParent, "")), ParentOf(headers(sampledParent, ""))
	for _, test := range []struct {
		ratio       float64
		least, most int // of 1000 requests without a parent
	}{{0, 0, 0}, {-1, 0, 0}, {0.5, 400, 600}, {1, 1000, 1000}, {7, 1000, 1000}} {
		tracer, _ := open(t, Options{Ratio: test.ratio}, "OTEL_BSP_SCHEDULE_DELAY=1000000", "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1")
		n := 0
		for range 1000 {
			if tracer.Begin(&Parent{}, time.Now()) != nil {
				n++
			}
		}
		if n < test.least || n > test.most {
			t.Errorf("ratio %v: %d of 1000", test.ratio, n)
		}
		if tracer.Begin(&unsampled, time.Now()) != nil || tracer.Begin(&sampled, time.Now()) == nil {
			t.Errorf("ratio %v: what the parent says does not hold", test.ratio)
		}
	}
}

func TestDisabled(t *testing.T) {
	for value, want := range map[string]bool{"": false, "true": true, "TRUE": true, "1": false} {
		t.Setenv("OTEL_SDK_DISABLED", value)
		if Disabled() != want {
			t.Errorf("%q: %v", value, !want)
		}
	}
}

func TestUnknownProtocol(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "udp")
	_, err := Open(t.Context(), Options{})
	const want = `tracing: OTEL_EXPORTER_OTLP_TRACES_PROTOCOL or OTEL_EXPORTER_OTLP_PROTOCOL: "udp" is not one of grpc, http/protobuf, http/json`
	if err == nil || err.Error() != want {
		t.Error(err)
	}
}

// Numbers that make no sense are not set: nothing panics, and room is made for as
// many as may wait.
func TestNumbersThatMakeNoSense(t *testing.T) {
	for _, text := range []string{"-5", "0", "x", "9223372036854775807", "1e3"} {
		for _, name := range []string{"OTEL_BSP_MAX_QUEUE_SIZE", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "OTEL_BSP_SCHEDULE_DELAY", "OTEL_BSP_EXPORT_TIMEOUT"} {
			t.Run(name+"="+text, func(t *testing.T) {
				tracer, _ := open(t, Options{Ratio: 1}, "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", name+"="+text)
				if room := tracer.room.Load(); room != sdktrace.DefaultMaxQueueSize {
					t.Errorf("room for %d", room)
				}
			})
		}
	}
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "-5")
	if d := milliseconds("OTEL_BSP_SCHEDULE_DELAY", 5000); d != 5*time.Second {
		t.Errorf("a delay of -5 is %v", d)
	}
}

// What cannot be read is named in the log, but not shown, for it may be a secret.
func TestSecretsAreNotLogged(t *testing.T) {
	for name, text := range map[string]string{
		"OTEL_EXPORTER_OTLP_HEADERS":        "authorization: Bearer secret",
		"OTEL_EXPORTER_OTLP_TRACES_HEADERS": "authorization=%zzsecret",
		"OTEL_EXPORTER_OTLP_ENDPOINT":       "http://user:secret@[::",
	} {
		t.Run(name, func(t *testing.T) {
			_, log := open(t, Options{}, name+"="+text)
			if said := log.String(); said == "" || strings.Contains(said, "secret") {
				t.Errorf("the log has %q", said)
			}
		})
	}
}

// A collector that answers with a book does not fill the log.
func TestLongFault(t *testing.T) {
	log := &programtest.Journal{}
	f := &faults{log: slog.New(slog.NewTextHandler(log, nil))}
	f.Handle(errors.New(strings.Repeat("é", 1<<20)))
	if n := len(log.String()); n < longestFault || n > longestFault+200 {
		t.Errorf("%d bytes", n)
	}
}

// A collector that hangs, refuses or is away makes nobody wait. As many requests
// are traced as may wait to be sent, the others are counted, and the log has a
// line. When it works again, so does tracing.
func TestBadCollector(t *testing.T) {
	for name, mode := range map[string]otlptest.Mode{"hangs": otlptest.Hangs, "refuses": otlptest.Refuses} {
		for _, protocol := range []string{HTTP, GRPC} {
			t.Run(name+" "+protocol, func(t *testing.T) {
				collector := otlptest.Start(t)
				collector.Set(mode)
				endpoint := map[string]string{HTTP: collector.HTTP, GRPC: collector.GRPC}[protocol]
				registry := prometheus.NewRegistry()
				tracer, log := open(t, Options{Ratio: 1, Protocol: protocol, Registerer: registry},
					"OTEL_EXPORTER_OTLP_ENDPOINT="+endpoint, "OTEL_BSP_MAX_QUEUE_SIZE=100", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE=10", "OTEL_EXPORTER_OTLP_TIMEOUT=200", "OTEL_BSP_EXPORT_TIMEOUT=200")
				begin, traced := time.Now(), 0
				for range 10_000 {
					if r := tracer.Begin(&Parent{}, time.Now()); r != nil {
						traced++
						r.End(denied(time.Now()))
					}
				}
				if took := time.Since(begin); took > 10*time.Second {
					t.Errorf("it took %v", took)
				}
				waitFor(t, "a line in the log", func() bool { return log.String() != "" })
				collector.Set(otlptest.Takes)
				waitFor(t, "tracing to work again", func() bool {
					if r := tracer.Begin(&Parent{}, time.Now()); r != nil {
						traced++
						r.End(&Outcome{Method: "again"})
					}
					return strings.Contains(log.String(), "traces are sent again")
				})
				if n := strings.Count(log.String(), "\n"); n != 2 {
					t.Errorf("%d lines:\n%s", n, log)
				}
				waitFor(t, "room", func() bool { return tracer.room.Load() == 100 })
				counts := outcomes(t, registry)
				if counts["sent"] == 0 || counts["lost"] == 0 || int(counts["sent"]+counts["lost"]) != traced || name == "hangs" && counts["left_out"] < 9000 {
					t.Errorf("%d traced, %v", traced, counts)
				}
			})
		}
	}
}

// Close sends what waits, and does not wait longer than it may.
func TestClose(t *testing.T) {
	for _, protocol := range []string{HTTP, GRPC} {
		collector := otlptest.Start(t)
		endpoint := map[string]string{HTTP: collector.HTTP, GRPC: collector.GRPC}[protocol]
		late := []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + endpoint, "OTEL_BSP_SCHEDULE_DELAY=1000000"}
		tracer, _ := open(t, Options{Ratio: 1, Protocol: protocol}, late...)
		tracer.Begin(&Parent{}, time.Now()).End(&Outcome{Method: "last"})
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		tracer.Close(ctx)
		if spans := collector.Spans(); len(spans) != 1 {
			t.Errorf("%s: %d spans", protocol, len(spans))
		}
		collector.Set(otlptest.Hangs)
		tracer, log := open(t, Options{Ratio: 1, Protocol: protocol}, late...)
		tracer.Begin(&Parent{}, time.Now()).End(&Outcome{Method: "last"})
		ctx, cancel = context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		begin := time.Now()
		tracer.Close(ctx)
		if took := time.Since(begin); took > 350*time.Millisecond || !strings.Contains(log.String(), "not all that waited was sent") {
			t.Errorf("%s: it took %v; %s", protocol, took, log)
		}
	}
}

// outcomes are the counts of requests.
func outcomes(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			counts[metric.GetLabel()[0].GetValue()] = metric.GetCounter().GetValue()
		}
	}
	return counts
}

func waitFor(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still not: %s", what)
		}
	}
}
