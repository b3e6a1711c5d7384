package tracing

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// The protocols of an exporter.
const (
	GRPC = "grpc"
	HTTP = "http"
)

// Options say who sends spans, and of which requests. Where they go, and how,
// OpenTelemetry's variables say: OTEL_EXPORTER_OTLP_…, OTEL_BSP_….
type Options struct {
	// Service goes before what OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES
	// say; what neither says is told by the defaults of [Service].
	Service Service

	// Ratio is the part, from 0 to 1, of the requests without a parent that are
	// traced. One with a parent is traced if that is.
	Ratio float64

	// Protocol is GRPC or HTTP; empty is what OTEL_EXPORTER_OTLP_TRACES_PROTOCOL
	// or OTEL_EXPORTER_OTLP_PROTOCOL says, else HTTP.
	Protocol string

	// Registerer takes the metrics; nil keeps them unregistered.
	Registerer prometheus.Registerer

	// Log takes what is wrong, once a minute at most.
	Log *slog.Logger
}

// Tracer traces requests. It is safe for concurrent use. A nil one traces none.
type Tracer struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	exporter *exporter
	bound    uint64       // of 2^63: the part of requests without a parent
	room     atomic.Int64 // how many more spans may wait to be sent
	metrics  *metrics
}

// maxAttribute bounds the texts of attributes, in characters.
const maxAttribute = 1024

// Disabled reports whether OTEL_SDK_DISABLED says that nothing is to be traced.
func Disabled() bool { return strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") }

// Open begins to trace. It waits for nobody: a collector that is away is no
// error. OpenTelemetry's logger and error handler, of which a process has one,
// are those of the last tracer.
func Open(ctx context.Context, o Options) (*Tracer, error) {
	t := &Tracer{bound: boundOf(o.Ratio)}
	var err error
	if t.metrics, err = newMetrics(o.Registerer); err != nil {
		return nil, err
	}
	faults := &faults{log: cmp.Or(o.Log, slog.Default())}
	otel.SetErrorHandler(faults)
	otel.SetLogger(logr.FromSlogHandler(discreet{faults.log.Handler()}))
	client, err := newClient(ctx, o.Protocol)
	if err != nil {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	t.exporter = &exporter{SpanExporter: client, room: &t.room, metrics: t.metrics, faults: faults}
	queue := number("OTEL_BSP_MAX_QUEUE_SIZE", sdktrace.DefaultMaxQueueSize, mostWaiting)
	t.room.Store(int64(queue))
	limits := sdktrace.NewSpanLimits()
	if limits.AttributeValueLengthLimit < 0 {
		limits.AttributeValueLengthLimit = maxAttribute
	}
	t.provider = sdktrace.NewTracerProvider(
		sdktrace.WithSampler(sdktrace.AlwaysSample()), // of what [Tracer.Begin] has chosen
		sdktrace.WithResource(o.Service.resource(ctx, faults)),
		sdktrace.WithRawSpanLimits(limits),
		sdktrace.WithSpanProcessor(newBatches(t.exporter, queue)),
	)
	t.tracer = t.provider.Tracer("github.com/ratelimitd/ratelimitd", trace.WithInstrumentationVersion(o.Service.Version))
	return t, nil
}

// Close sends what waits, until ctx is done at the latest. What ends later is
// not sent.
func (t *Tracer) Close(ctx context.Context) {
	if t == nil {
		return
	}
	if err := t.provider.Shutdown(ctx); err != nil {
		t.exporter.faults.Handle(fmt.Errorf("not all that waited was sent: %w", err))
		_ = t.exporter.Shutdown(ctx) // breaks off what is under way
	}
}

// Begin decides whether a request with that parent is traced, and returns nil if
// not, without allocation. at is when it was read. What is begun must end.
func (t *Tracer) Begin(p *Parent, at time.Time) *Request {
	if t == nil || !t.chooses(p) {
		return nil
	}
	if t.room.Add(-spansEach) < 0 {
		t.room.Add(spansEach)
		t.metrics.leftOut.Inc()
		return nil
	}
	return &Request{tracer: t, parent: p.span, began: at}
}

func (t *Tracer) chooses(p *Parent) bool {
	if p.Known() {
		return p.Sampled()
	}
	return rand.Uint64()>>1 < t.bound
}

// boundOf returns a part of 2^63, as OpenTelemetry's sampler by the ID of a
// trace has it.
func boundOf(ratio float64) uint64 {
	return uint64(min(max(ratio, 0), 1) * (1 << 63))
}
