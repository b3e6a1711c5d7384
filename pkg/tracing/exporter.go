package tracing

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// newClient returns what sends spans by a protocol, or by that of the variables.
func newClient(ctx context.Context, protocol string) (sdktrace.SpanExporter, error) {
	const general, own = "OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"
	if protocol == "" {
		protocol = cmp.Or(os.Getenv(own), os.Getenv(general), HTTP)
	}
	switch protocol {
	case GRPC:
		return otlptracegrpc.New(ctx)
	case HTTP, "http/protobuf", "http/json":
		return otlptracehttp.New(ctx)
	}
	return nil, fmt.Errorf("%s or %s: %q is not one of grpc, http/protobuf, http/json", own, general, protocol)
}

// exporter sends spans, counts them, and makes room for others.
type exporter struct {
	sdktrace.SpanExporter

	room    *atomic.Int64
	metrics *metrics
	faults  *faults
}

// ExportSpans implements [sdktrace.SpanExporter]. Errors end here.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	e.room.Add(int64(len(spans)))
	requests := 0
	for _, s := range spans {
		if s.SpanKind() == trace.SpanKindServer {
			requests++
		}
	}
	if err != nil {
		e.metrics.lost.Add(float64(requests))
		e.faults.Handle(err)
		return nil
	}
	e.metrics.sent.Add(float64(requests))
	e.faults.over()
	return nil
}

// faults logs what is wrong with sending, once in a while, and when that is
// over. It is OpenTelemetry's error handler, too.
type faults struct {
	log *slog.Logger

	mu      sync.Mutex // guards what follows
	next    time.Time  // not before this; zero: nothing is wrong
	skipped int
}

const (
	// faultsEvery is how often at most.
	faultsEvery = time.Minute

	// longestFault bounds what is logged, in bytes: collectors answer what they
	// like, and it is part of the error.
	longestFault = 1 << 10
)

// Handle logs an error, or counts it.
func (f *faults) Handle(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if now.Before(f.next) {
		f.skipped++
		return
	}
	text := err.Error()
	if len(text) > longestFault {
		text = text[:longestFault] + "…"
	}
	f.log.Warn("traces are not sent", "error", strings.ToValidUTF8(text, "?"), "similar_lines_left_out", f.skipped)
	f.next, f.skipped = now.Add(faultsEvery), 0
}

// over says that sending works again, if it did not.
func (f *faults) over() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.next.IsZero() {
		return
	}
	f.log.Info("traces are sent again", "similar_lines_left_out", f.skipped)
	f.next, f.skipped = time.Time{}, 0
}
