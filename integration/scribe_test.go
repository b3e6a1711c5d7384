package integration

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
)

// scribe is a rate limit service that allows everything and keeps what it was asked.
type scribe struct {
	hold <-chan struct{} // answers wait for it; nil: they do not

	mu    sync.Mutex
	calls []string // guarded by mu
}

// ShouldRateLimit keeps the request and answers OK.
func (s *scribe) ShouldRateLimit(ctx context.Context, req *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error) {
	s.mu.Lock()
	s.calls = append(s.calls, written(req))
	s.mu.Unlock()
	if s.hold != nil {
		select {
		case <-s.hold:
		case <-ctx.Done():
		}
	}
	return &rlsv3.RateLimitResponse{OverallCode: rlsv3.RateLimitResponse_OK}, nil
}

// written returns the descriptors of a request as [key=value key=value]*hits; no hits where Envoy sends none.
func written(req *rlsv3.RateLimitRequest) string {
	var all []string
	for _, d := range req.GetDescriptors() {
		var entries []string
		for _, e := range d.GetEntries() {
			entries = append(entries, e.GetKey()+"="+e.GetValue())
		}
		text := fmt.Sprint(entries)
		if hits := d.GetHitsAddend(); hits != nil {
			text += fmt.Sprintf("*%d", hits.GetValue())
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

// take returns the calls since the last time, with a comma between two.
func (s *scribe) take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := strings.Join(s.calls, ", ")
	s.calls = nil
	return calls
}

// count returns how many calls there were since the last take.
func (s *scribe) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.calls)
}

// startScribe serves a scribe, with health checks, and returns its address.
func startScribe(t *testing.T) (*scribe, string) {
	t.Helper()
	return startScribeThatWaits(t, nil)
}

// startScribeThatWaits is startScribe with answers that wait for a channel.
func startScribeThatWaits(t *testing.T, hold <-chan struct{}) (*scribe, string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, server, checks := &scribe{hold: hold}, grpc.NewServer(), health.NewServer()
	rlsv3.RegisterRateLimitServiceServer(server, s)
	checks.SetServingStatus("ratelimit", healthv1.HealthCheckResponse_SERVING)
	healthv1.RegisterHealthServer(server, checks)
	go func() { _ = server.Serve(listener) }() // until Stop
	t.Cleanup(server.Stop)
	return s, listener.Addr().String()
}
