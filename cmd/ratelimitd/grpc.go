package main

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	// Clients may compress what they send.
	_ "google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"

	"github.com/ratelimitd/ratelimitd/pkg/service"
	"github.com/ratelimitd/ratelimitd/pkg/settings"
)

// newGRPC returns what serves every method that package transport does not:
// health, reflection, and rate limit requests that come compressed. It has no
// connections of its own. Unary calls pass through intercept.
func newGRPC(s *settings.Settings, rateLimit *service.Service, health *health.Server, intercept ...grpc.UnaryServerInterceptor) *grpc.Server {
	options := append(rateLimit.ServerOptions(), grpc.MaxRecvMsgSize(min(int(s.GRPCMaxMessage), maxOtherMessage)), grpc.ChainUnaryInterceptor(intercept...))
	server := grpc.NewServer(options...)
	rateLimit.Register(server)
	healthpb.RegisterHealthServer(server, health)
	if s.GRPCReflection {
		reflection.Register(server)
	}
	return server
}

const (
	// maxOtherMessage is the largest message that newGRPC's server takes, when
	// it is decompressed: grpc's own default. No proxy compresses its requests.
	maxOtherMessage = 4 << 20

	// maxCompressed is the longest body of a call that says it is compressed,
	// and maxDecompressing how many of these are read at a time: a thousandth
	// of a message is enough to make one that takes as much memory as it may.
	maxCompressed    = 1 << 20
	maxDecompressing = 4

	// maxTurnWait is how long one may wait for its turn to be read. Those of
	// ordinary size take microseconds; only a flood makes others wait.
	maxTurnWait = 200 * time.Millisecond
)

// sparing has few compressed messages decompressed at a time, and only such as
// have arrived, so that a client which is slow to send holds up no other. A call
// whose turn does not come within the time to wait is UNAVAILABLE. Those of
// reflection are left out, for its clients wait for answers while they send.
func sparing(next http.Handler, wait time.Duration) http.Handler {
	turns := make(chan struct{}, maxDecompressing)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		encoding := r.Header.Get("Grpc-Encoding")
		if encoding == "" || encoding == "identity" || strings.HasPrefix(r.URL.Path, "/grpc.reflection.") {
			next.ServeHTTP(w, r)
			return
		}
		body, err := io.ReadAll(io.LimitReader(r.Body, maxCompressed+1))
		if err != nil || len(body) > maxCompressed {
			panic(http.ErrAbortHandler) // resets the stream
		}
		arrived := time.Now()
		late := time.NewTimer(wait)
		defer late.Stop()
		over := sync.OnceFunc(func() { <-turns })
		select {
		case turns <- struct{}{}:
			defer over()
		case <-r.Context().Done():
			return
		case <-late.C:
			w.Header().Set("Content-Type", "application/grpc")
			w.Header().Set(http.TrailerPrefix+"Grpc-Status", strconv.Itoa(int(codes.Unavailable)))
			w.Header().Set(http.TrailerPrefix+"Grpc-Message", "too many compressed requests at a time")
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r.WithContext(service.WithArrival(r.Context(), service.Arrival{At: arrived, Read: over})))
	})
}
