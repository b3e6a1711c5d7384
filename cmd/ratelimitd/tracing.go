package main

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/ratelimitd/ratelimitd/pkg/service"
	"github.com/ratelimitd/ratelimitd/pkg/tracing"
)

// spans makes the spans of requests, however they come.
type spans struct {
	tracer *tracing.Tracer // nil: of none
	system string          // the store's, as OpenTelemetry names it; empty: it never waits
}

// openSpans begins to trace requests, if the settings say so, on a store.
func (m *Main) openSpans(system string, registry prometheus.Registerer) (*spans, error) {
	o := tracing.Options{
		Service:    tracing.Service{Version: version()},
		Ratio:      float64(m.Settings.TracingSamplingRate),
		Registerer: registry,
		Log:        m.log,
	}
	wanted := m.Settings.Tracing
	if m.Compat != nil {
		t := &m.Compat.Tracing
		wanted = t.Enabled
		o.Service.Name, o.Service.Namespace, o.Service.Instance = t.ServiceName, t.ServiceNamespace, t.InstanceID
		o.Ratio, o.Protocol = t.SamplingRate, t.Protocol
	}
	if !wanted || tracing.Disabled() {
		return &spans{}, nil
	}
	tracer, err := tracing.Open(context.Background(), o)
	return &spans{tracer: tracer, system: system}, err
}

// flushPatience is how long a collector may take at the end for what waits, which
// is a few thousand spans: one that is away must not hold up a restart.
const flushPatience = 2 * time.Second

// flush sends the spans that wait, until an instant at the latest.
func (s *spans) flush(end time.Time) {
	if soon := time.Now().Add(flushPatience); soon.Before(end) {
		end = soon
	}
	ctx, cancel := context.WithDeadline(context.Background(), end)
	defer cancel()
	s.tracer.Close(ctx)
}

// operations are what is asked of stores, as OpenTelemetry names it.
var operations = map[string]string{"redis": "EVALSHA"}

// span is a request that is traced.
type span struct {
	service.Account

	spans   *spans
	request *tracing.Request
	index   int            // in its batch
	err     *service.Error // nil: it was answered
}

// begin returns nil if the request is not traced.
func (s *spans) begin(request *tracing.Request) *span {
	if request == nil {
		return nil
	}
	return &span{spans: s, request: request}
}

// end ends a request that came over gRPC.
func (s *span) end() {
	o := s.outcome()
	o.Method = strings.TrimPrefix(rlsv3.RateLimitService_ShouldRateLimit_FullMethodName, "/")
	if s.err != nil {
		o.Status = s.err.Code()
	}
	s.request.End(&o)
}

// outcome is what can be said however the request came.
func (s *span) outcome() tracing.Outcome {
	o := tracing.Outcome{Domain: s.Domain, Descriptors: s.Descriptors, DeniedBy: s.DeniedBy}
	if s.Code != rlsv3.RateLimitResponse_UNKNOWN {
		o.Code = s.Code.String()
	}
	if s.Degraded {
		o.DegradedBy = s.DegradedBy.String()
	}
	if system := s.spans.system; system != "" {
		o.Store = tracing.Store{
			System: system, Operation: cmp.Or(operations[system], system),
			Asked: s.Asked, Decided: s.Decided, Failure: s.Failure,
		}
	}
	return o
}

// caller is what the headers of a call say of who calls: its mark.
type caller struct {
	strict bool // see [service.StrictCaller]
	parent tracing.Parent
}

// The callers who are part of no trace, and those of whose trace nobody keeps
// anything. For a call of theirs no memory is taken.
var (
	untraced  = [...]caller{{}, {strict: true}}
	unsampled = [...]caller{{parent: tracing.Unsampled()}, {strict: true, parent: tracing.Unsampled()}}
)

// mark returns the mark of a call, a *caller.
func (s *spans) mark(header func(name string) string) any {
	strict := 0
	if service.StrictCaller(header) {
		strict = 1
	}
	if s.tracer == nil {
		return &untraced[strict]
	}
	switch parent := tracing.ParentOf(header); {
	case parent.Sampled():
		return &caller{strict: strict == 1, parent: parent}
	case parent.Known():
		return &unsampled[strict]
	}
	return &untraced[strict]
}

// unary traces calls that come by way of grpc.
func (s *spans) unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	exchange, ok := request.(*service.Exchange)
	if !ok || s.tracer == nil {
		return next(ctx, request)
	}
	parent := tracing.ParentOf(func(name string) string {
		return strings.Join(metadata.ValueFromIncomingContext(ctx, name), ",")
	})
	span := s.begin(s.tracer.Begin(&parent, exchange.Arrived))
	if span == nil {
		return next(ctx, request)
	}
	span.err = &service.Error{} // of a panic
	defer func() { span.end() }()
	response, err := next(service.WithAccount(ctx, &span.Account), request)
	span.err, _ = errors.AsType[*service.Error](err)
	return response, err
}

// json traces requests to /json.
func (s *spans) json(next http.Handler) http.Handler {
	if s.tracer == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		const path = "/json"
		if r.URL.Path != path || r.Method != http.MethodPost {
			next.ServeHTTP(w, r)
			return
		}
		parent := tracing.ParentOf(func(name string) string { return strings.Join(r.Header.Values(name), ",") })
		span := s.begin(s.tracer.Begin(&parent, time.Now()))
		if span == nil {
			next.ServeHTTP(w, r)
			return
		}
		told := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		defer func() {
			o := span.outcome()
			o.Path, o.HTTPStatus = path, told.status
			span.request.End(&o)
		}()
		next.ServeHTTP(told, r.WithContext(service.WithAccount(r.Context(), &span.Account)))
	})
}

// statusWriter remembers the status of an answer.
type statusWriter struct {
	http.ResponseWriter

	status int
}

// WriteHeader implements [http.ResponseWriter].
func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for [http.ResponseController].
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
