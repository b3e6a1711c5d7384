package integration

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"

	"github.com/ratelimitd/ratelimitd/pkg/transport"
)

// The real Envoy, with one worker and with two, has its calls answered by the transport, and health checks by grpc on the same
// connections, while these grow old and are replaced. No call fails.
func TestEnvoyOnTransport(t *testing.T) {
	for workers := 1; workers <= 2; workers++ {
		t.Run(fmt.Sprint(workers, " workers"), func(t *testing.T) {
			judge := &refuseOver{}
			address := serveJudge(t, judge, transport.Options{ConnectionAge: 500 * time.Millisecond})
			envoy := startEnvoy(t, envoyOptions{ratelimitd: []string{address}, workers: workers})
			var clients sync.WaitGroup
			for i := range 4 {
				client := envoy.client(t, "")
				clients.Go(func() {
					for begin := time.Now(); time.Since(begin) < 3*time.Second; {
						for user, want := range map[string]int{fmt.Sprint("user ", i): http.StatusOK, "over": http.StatusTooManyRequests} {
							if got, err := client.get("/user", "x-user-id: "+user); err != nil || got.status != want {
								t.Errorf("%s: status %d, want %d, %v", user, got.status, want, err)
								return
							}
						}
					}
				})
			}
			clients.Wait()
			envoy.wantNoErrors(t)
			if judge.calls.Load() < 100 {
				t.Errorf("%d calls", judge.calls.Load())
			}
			if n := envoy.stat(t, "cluster.ratelimitd.upstream_cx_total"); n < 4 {
				t.Errorf("%d connections, although they are to last half a second", n)
			}
		})
	}
}

// refuseOver denies requests whose descriptors hold the value "over".
type refuseOver struct{ calls atomic.Int64 }

func (r *refuseOver) Handle(_ context.Context, batch []*transport.Call) {
	r.calls.Add(int64(len(batch)))
	for _, call := range batch {
		var request rlsv3.RateLimitRequest
		if err := proto.Unmarshal(call.Message, &request); err != nil {
			call.Code, call.Status = 13, err.Error()
			continue
		}
		response := &rlsv3.RateLimitResponse{OverallCode: rlsv3.RateLimitResponse_OK}
		for _, d := range request.GetDescriptors() {
			for _, e := range d.GetEntries() {
				if e.GetValue() == "over" {
					response.OverallCode = rlsv3.RateLimitResponse_OVER_LIMIT
				}
			}
		}
		call.Reply, _ = proto.MarshalOptions{}.MarshalAppend(call.Reply, response)
	}
}

// serveJudge serves a handler, with health checks beside it, and returns the address.
func serveJudge(t *testing.T, handler transport.Handler, o transport.Options) string {
	t.Helper()
	other, checks := grpc.NewServer(), health.NewServer()
	checks.SetServingStatus("ratelimit", healthv1.HealthCheckResponse_SERVING)
	healthv1.RegisterHealthServer(other, checks)
	o.Method, o.Handler, o.Other = rateLimitPath, handler, other
	s, err := transport.New(o)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.Serve(listener) }() // until Stop
	t.Cleanup(s.Stop)
	return listener.Addr().String()
}
