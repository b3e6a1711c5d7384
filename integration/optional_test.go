package integration

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
)

// An optional action (skip_if_absent) that finds nothing leaves its entry out.
const optionalRoutes = `- match: {prefix: /optional}
  route:
    cluster: backend
    rate_limits:
      - actions:
          - request_headers: {header_name: x-a, descriptor_key: a, skip_if_absent: true}
          - request_headers: {header_name: x-b, descriptor_key: b, skip_if_absent: true}
      - actions:
          - remote_address: {}
`

// When every action of a descriptor finds nothing, Envoy sends the descriptor all the same, without entries, beside the
// others. This test records that; the next one is why it matters.
func TestEnvoySendsEmptyDescriptors(t *testing.T) {
	recorder, address := startRecorder(t)
	client := startEnvoy(t, envoyOptions{ratelimitd: []string{address}, routes: optionalRoutes}).client(t, "")
	tests := []struct {
		headers []string
		want    string
	}{
		{[]string{"x-a: 1", "x-b: 2"}, "[a=1 b=2] [remote_address=127.0.0.1]"},
		{[]string{"x-b: 2"}, "[b=2] [remote_address=127.0.0.1]"},
		{[]string{"x-b: "}, "[b=] [remote_address=127.0.0.1]"},
		{nil, "[] [remote_address=127.0.0.1]"},
	}
	for _, test := range tests {
		client.mustGet(t, "/optional", test.headers...)
		if got := recorder.take(); got != test.want {
			t.Errorf("headers %q: Envoy sent %s, want %s", test.headers, got, test.want)
		}
	}
}

// A client that leaves out optional headers is still limited by the other descriptors. If ratelimitd answered the empty
// descriptor with an error, Envoy would let the request through.
func TestLeavingHeadersOutEscapesNothing(t *testing.T) {
	policies := policyDir(t, `
domain: edge
descriptors:
  - key: remote_address
    rate_limit: {requests_per_unit: 2, window: 100h}
`)
	envoy := startEnvoy(t, envoyOptions{ratelimitd: []string{serve(t, policies).grpc}, routes: optionalRoutes})
	client := envoy.client(t, "")
	for i, want := range []int{http.StatusOK, http.StatusOK, http.StatusTooManyRequests} {
		if got := client.mustGet(t, "/optional").status; got != want {
			t.Errorf("request %d: status %d, want %d", i+1, got, want)
		}
	}
	envoy.wantNoErrors(t)
}

// recorder is a rate limit service that allows everything and keeps what it was asked.
type recorder struct {
	mu   sync.Mutex
	last *rlsv3.RateLimitRequest // guarded by mu
}

// ShouldRateLimit keeps the request and answers OK.
func (r *recorder) ShouldRateLimit(_ context.Context, req *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = req
	return &rlsv3.RateLimitResponse{OverallCode: rlsv3.RateLimitResponse_OK}, nil
}

// take returns the descriptors of the last request, as [key=value key=value] each.
func (r *recorder) take() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var descriptors []string
	for _, d := range r.last.GetDescriptors() {
		var entries []string
		for _, e := range d.GetEntries() {
			entries = append(entries, e.GetKey()+"="+e.GetValue())
		}
		descriptors = append(descriptors, fmt.Sprint(entries))
	}
	r.last = nil
	return strings.Join(descriptors, " ")
}

// startRecorder serves a recorder, with health checks, and returns its address.
func startRecorder(t *testing.T) (*recorder, string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r, server, checks := &recorder{}, grpc.NewServer(), health.NewServer()
	rlsv3.RegisterRateLimitServiceServer(server, r)
	checks.SetServingStatus("ratelimit", healthv1.HealthCheckResponse_SERVING)
	healthv1.RegisterHealthServer(server, checks)
	go func() { _ = server.Serve(listener) }() // until Stop
	t.Cleanup(server.Stop)
	return r, listener.Addr().String()
}
