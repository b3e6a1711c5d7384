package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/status"
)

// TestCompressedRequests: they are served, but for one that is a bomb.
func TestCompressedRequests(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/a.yaml", policy("1"))
	client := start(t, withPolicies(dir)).client(t)
	for _, want := range []rlsv3.RateLimitResponse_Code{rlsv3.RateLimitResponse_OK, rlsv3.RateLimitResponse_OVER_LIMIT} {
		reply, err := client.ShouldRateLimit(t.Context(), request("t", "a", strings.Repeat("x", 1<<20)), grpc.UseCompressor(gzip.Name))
		if err != nil || reply.OverallCode != want {
			t.Fatalf("got %v, %v, want %v", reply.GetOverallCode(), err, want)
		}
	}
	_, err := client.ShouldRateLimit(t.Context(), request("t", "a", strings.Repeat("x", 60<<20)), grpc.UseCompressor(gzip.Name))
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("60 MB in a few thousand bytes: %v", err)
	}
}

// TestFewCompressedRequestsAtATime, and none that has not arrived.
func TestFewCompressedRequestsAtATime(t *testing.T) {
	var now, most, served atomic.Int64
	handler := sparing(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		n := now.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		time.Sleep(time.Millisecond)
		now.Add(-1)
		served.Add(1)
	}), time.Minute)
	call := func(encoding, body string) {
		r := httptest.NewRequest("POST", "/a", strings.NewReader(body))
		r.Header.Set("Grpc-Encoding", encoding)
		handler.ServeHTTP(httptest.NewRecorder(), r)
	}
	var calls sync.WaitGroup
	for range 50 {
		calls.Go(func() { call("gzip", "x") })
	}
	calls.Wait()
	if n := most.Load(); n > maxDecompressing || served.Load() != 50 {
		t.Errorf("%d of %d at a time", n, served.Load())
	}
	defer func() {
		if p := recover(); p != http.ErrAbortHandler {
			t.Errorf("a body that is too long: %v", p)
		}
	}()
	call("gzip", strings.Repeat("x", maxCompressed+1))
}

// TestCompressedRequestsDoNotWaitForever for their turn.
func TestCompressedRequestsDoNotWaitForever(t *testing.T) {
	busy, free := make(chan struct{}, maxDecompressing), make(chan struct{})
	handler := sparing(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		busy <- struct{}{}
		<-free
	}), time.Millisecond)
	call := func() http.Header {
		r, w := httptest.NewRequest("POST", "/a", strings.NewReader("x")), httptest.NewRecorder()
		r.Header.Set("Grpc-Encoding", "gzip")
		handler.ServeHTTP(w, r)
		return w.Header()
	}
	var calls sync.WaitGroup
	for range maxDecompressing {
		calls.Go(func() { call() })
	}
	for range maxDecompressing {
		<-busy
	}
	if got := call().Get(http.TrailerPrefix + "Grpc-Status"); got != "14" {
		t.Errorf("gRPC status %q, want 14", got)
	}
	close(free)
	calls.Wait()
}
