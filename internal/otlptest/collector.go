package otlptest

import (
	"compress/gzip"
	"context"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	// Exporters may compress.
	_ "google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
)

// Collector takes spans over both protocols. It is safe for concurrent use.
type Collector struct {
	// HTTP and GRPC are what OTEL_EXPORTER_OTLP_ENDPOINT is for the protocols.
	HTTP, GRPC string

	gone chan struct{} // closed at the end

	mu      sync.Mutex // guards what follows
	mode    Mode
	calls   int
	headers map[string]string // of the last call
	spans   []Span
	text    strings.Builder
}

// Mode is what a collector does with what it gets.
type Mode int

const (
	Takes   Mode = iota // takes it
	Refuses             // answers that this cannot work
	Hangs               // does not answer
)

// Span is a span as it came.
type Span struct {
	Name, Kind              string // Kind without SPAN_KIND_
	TraceID, SpanID, Parent string // hexadecimal
	TraceState              string
	Failed                  bool
	Start, End              time.Time
	Attributes, Resource    map[string]any // string, int64, bool or []any
}

// Start starts a collector that ends with the test.
func Start(t testing.TB) *Collector {
	t.Helper()
	c := &Collector{gone: make(chan struct{})}
	server := httptest.NewServer(http.HandlerFunc(c.serveHTTP))
	c.HTTP = server.URL
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c.GRPC = "http://" + listener.Addr().String()
	over := grpc.NewServer()
	collectorpb.RegisterTraceServiceServer(over, &grpcCollector{c: c})
	done := make(chan error, 1)
	go func() { done <- over.Serve(listener) }()
	t.Cleanup(func() {
		close(c.gone)
		over.Stop()
		if err := <-done; err != nil && !errors.Is(err, grpc.ErrServerStopped) { // a test may end before it began
			t.Error(err)
		}
		server.CloseClientConnections()
		server.Close()
	})
	return c
}

// Set changes what the collector does.
func (c *Collector) Set(m Mode) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mode = m
}

// Spans are those that were taken, in the order in which they came.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Span(nil), c.spans...)
}

// Wait waits until so many spans were taken, and returns all.
func (c *Collector) Wait(t testing.TB, n int) []Span {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		spans := c.Spans()
		if len(spans) >= n {
			return spans
		}
		if time.Now().After(end) {
			t.Fatalf("%d spans, want %d", len(spans), n)
		}
	}
}

// Calls is how many there were, also of those that were not answered.
func (c *Collector) Calls() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls
}

// Header returns a header of the last call; the name is in lower case.
func (c *Collector) Header(name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.headers[name]
}

// Text is all that was taken, as text.
func (c *Collector) Text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text.String()
}

// take takes a request and returns what is to become of it.
func (c *Collector) take(ctx context.Context, r *collectorpb.ExportTraceServiceRequest, headers map[string]string) Mode {
	c.mu.Lock()
	mode := c.mode
	c.calls++
	c.headers = headers
	if mode == Takes {
		c.add(r)
	}
	c.mu.Unlock()
	if mode == Hangs {
		select {
		case <-c.gone:
		case <-ctx.Done():
		}
	}
	return mode
}

func (c *Collector) add(r *collectorpb.ExportTraceServiceRequest) {
	c.text.WriteString(prototext.Format(r))
	for _, all := range r.GetResourceSpans() {
		resource := attributes(all.GetResource().GetAttributes())
		for _, scope := range all.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				c.spans = append(c.spans, Span{
					Name: s.GetName(), Kind: strings.TrimPrefix(s.GetKind().String(), "SPAN_KIND_"),
					TraceID: hex.EncodeToString(s.GetTraceId()), SpanID: hex.EncodeToString(s.GetSpanId()), Parent: hex.EncodeToString(s.GetParentSpanId()),
					TraceState: s.GetTraceState(), Failed: s.GetStatus().GetCode() == tracepb.Status_STATUS_CODE_ERROR,
					Start: time.Unix(0, int64(s.GetStartTimeUnixNano())), End: time.Unix(0, int64(s.GetEndTimeUnixNano())),
					Attributes: attributes(s.GetAttributes()), Resource: resource,
				})
			}
		}
	}
}

func attributes(list []*commonpb.KeyValue) map[string]any {
	all := map[string]any{}
	for _, a := range list {
		all[a.GetKey()] = value(a.GetValue())
	}
	return all
}

func value(v *commonpb.AnyValue) any {
	switch v := v.GetValue().(type) {
	case *commonpb.AnyValue_StringValue:
		return v.StringValue
	case *commonpb.AnyValue_IntValue:
		return v.IntValue
	case *commonpb.AnyValue_BoolValue:
		return v.BoolValue
	case *commonpb.AnyValue_ArrayValue:
		var list []any
		for _, one := range v.ArrayValue.GetValues() {
			list = append(list, value(one))
		}
		return list
	}
	return v.String()
}

func (c *Collector) serveHTTP(w http.ResponseWriter, r *http.Request) {
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		unzipped, err := gzip.NewReader(body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body = unzipped
	}
	all, err := io.ReadAll(body)
	request := new(collectorpb.ExportTraceServiceRequest)
	if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(all, request) != nil {
		http.Error(w, "no traces", http.StatusBadRequest)
		return
	}
	headers := map[string]string{}
	for name, values := range r.Header {
		headers[strings.ToLower(name)] = values[0]
	}
	if c.take(r.Context(), request, headers) == Refuses {
		http.Error(w, "no", http.StatusForbidden)
		return
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// grpcCollector is a collector over gRPC.
type grpcCollector struct {
	collectorpb.UnimplementedTraceServiceServer

	c *Collector
}

// Export implements the service.
func (g *grpcCollector) Export(ctx context.Context, r *collectorpb.ExportTraceServiceRequest) (*collectorpb.ExportTraceServiceResponse, error) {
	headers := map[string]string{}
	incoming, _ := metadata.FromIncomingContext(ctx)
	for name, values := range incoming {
		headers[name] = values[0]
	}
	if g.c.take(ctx, r, headers) == Refuses {
		return nil, status.Error(codes.PermissionDenied, "no")
	}
	return &collectorpb.ExportTraceServiceResponse{}, nil
}
