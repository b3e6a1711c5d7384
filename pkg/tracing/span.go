package tracing

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	otelcodes "go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc/codes"
)

// spansEach is how many spans a request has at most: its own, and the store's.
const spansEach = 2

// Request is a request that is traced.
type Request struct {
	tracer *Tracer
	parent trace.SpanContext
	began  time.Time
}

// Outcome is what became of a request. No value of a descriptor is in it.
type Outcome struct {
	Domain      string
	Descriptors int

	// Code is the overall code; empty: there is none, for the answer is an
	// error.
	Code string

	// DeniedBy names the limits that denied, and DegradedBy the failure policy
	// that answered in place of the store.
	DeniedBy   []string
	DegradedBy string

	// Method is the gRPC method, service/method, and Status how it ended. A
	// request that came over HTTP has a Path and an HTTPStatus instead.
	Method     string
	Status     codes.Code
	Path       string
	HTTPStatus int

	Store Store
}

// Store is the part of a request that a store took.
type Store struct {
	// System and Operation are the store's as OpenTelemetry names them: redis,
	// EVALSHA.
	System, Operation string

	// Asked and Decided are when it was asked and had decided; zero: it was not.
	Asked, Decided time.Time

	// Failure is why it did not decide; nil if it did.
	Failure error
}

// End makes the spans of a request that has been answered just now, and hands
// them on to be sent. It does not wait. It is called once.
func (r *Request) End(o *Outcome) {
	ctx := trace.ContextWithRemoteSpanContext(context.Background(), r.parent)
	name, attributes := o.described()
	ctx, span := r.tracer.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(r.began), trace.WithAttributes(attributes...))
	if o.faulty() {
		span.SetStatus(otelcodes.Error, "")
	}
	if o.Store.Asked.IsZero() {
		r.tracer.room.Add(1)
	} else {
		o.Store.span(ctx, r.tracer.tracer)
	}
	span.End()
}

// span makes the span of the store.
func (s *Store) span(ctx context.Context, tracer trace.Tracer) {
	_, span := tracer.Start(ctx, s.Operation, trace.WithSpanKind(trace.SpanKindClient), trace.WithTimestamp(s.Asked), trace.WithAttributes(
		semconv.DBSystemNameKey.String(s.System), semconv.DBOperationName(s.Operation),
	))
	if s.Failure != nil {
		text := s.Failure.Error()
		span.SetAttributes(semconv.ErrorTypeOther)
		span.SetStatus(otelcodes.Error, strings.ToValidUTF8(text[:min(len(text), maxAttribute)], "?"))
	}
	span.End(trace.WithTimestamp(s.Decided))
}

// described returns the name of a request's span and its attributes.
func (o *Outcome) described() (name string, all []attribute.KeyValue) {
	all = make([]attribute.KeyValue, 0, 9)
	if o.Path != "" {
		name = http.MethodPost + " " + o.Path
		all = append(all, semconv.HTTPRequestMethodPost, semconv.HTTPRoute(o.Path), semconv.HTTPResponseStatusCode(o.HTTPStatus))
	} else {
		name = o.Method
		all = append(all, semconv.RPCSystemNameGRPC, semconv.RPCMethod(o.Method), semconv.RPCResponseStatusCode(statusName(o.Status)))
	}
	all = append(all, attribute.String("ratelimit.domain", o.Domain), attribute.Int("ratelimit.descriptors", o.Descriptors))
	if o.Code != "" {
		all = append(all, attribute.String("ratelimit.code", o.Code))
	}
	if len(o.DeniedBy) > 0 {
		all = append(all, attribute.StringSlice("ratelimit.denied_by", o.DeniedBy))
	}
	if o.DegradedBy != "" {
		all = append(all, attribute.String("ratelimit.degraded_by", o.DegradedBy))
	}
	if o.faulty() {
		all = append(all, o.errorType())
	}
	return name, all
}

// faulty reports whether the request failed by no fault of the client's, as
// OpenTelemetry's conventions have it.
func (o *Outcome) faulty() bool {
	switch o.Status {
	case codes.Unknown, codes.DeadlineExceeded, codes.Unimplemented, codes.Internal, codes.Unavailable, codes.DataLoss:
		return true
	}
	return o.HTTPStatus >= http.StatusInternalServerError
}

func (o *Outcome) errorType() attribute.KeyValue {
	if o.Path != "" {
		return semconv.ErrorTypeKey.String(strconv.Itoa(o.HTTPStatus))
	}
	return semconv.ErrorTypeKey.String(statusName(o.Status))
}

// statusName is the name of a status in the protocol.
func statusName(c codes.Code) string { return code.Code(c).String() }
