package main

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	"github.com/ratelimitd/ratelimitd/pkg/settings"
)

// TestStopLosesNoCall stops one of two replicas under load, as a rolling
// restart does: 500 calls a second on both protocols, and not one fails.
func TestStopLosesNoCall(t *testing.T) {
	drain := func(s *settings.Settings) { s.DrainDelay = time.Second }
	first, second := start(t, drain), start(t, drain)

	// The client goes to the first address for as long as it answers.
	addresses := manual.NewBuilderWithScheme("replicas")
	addresses.InitialState(resolver.State{Addresses: []resolver.Address{{Addr: first.GRPC.String()}, {Addr: second.GRPC.String()}}})
	conn, err := grpc.NewClient("replicas:///", grpc.WithResolvers(addresses), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	client := rlsv3.NewRateLimitServiceClient(conn)
	var calls, failed atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	var load sync.WaitGroup
	load.Go(func() {
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			<-tick.C
			load.Go(func() {
				if _, err := client.ShouldRateLimit(t.Context(), request("edge", "remote_address", "192.0.2.7")); err != nil {
					failed.Add(1)
					t.Log(err)
				}
				calls.Add(1)
			})
		}
	})

	// A client over HTTP asks until it is told that the program is stopping.
	load.Go(func() {
		var web http.Client
		defer web.CloseIdleConnections()
		for told := false; !told; {
			response, err := web.Post("http://"+first.HTTP.String()+"/json", "application/json", strings.NewReader(`{"domain":"edge","descriptors":[{"entries":[{"key":"none"}]}]}`))
			if err != nil || response.StatusCode != 200 {
				failed.Add(1)
				t.Log(err)
				return
			}
			told = response.Close
			_, _ = io.Copy(io.Discard, response.Body)
			response.Body.Close()
		}
	})

	time.Sleep(200 * time.Millisecond)
	first.end()
	eventually(t, "not ready", func() bool {
		code, text := page(t, "GET", first.HTTP.String()+"/healthcheck", "")
		return code == 503 && text == "not ready: stopping\n"
	})
	if err := <-first.done; err != nil {
		t.Error(err)
	}
	first.done <- nil
	time.Sleep(200 * time.Millisecond)
	cancel()
	load.Wait()
	if n := calls.Load(); failed.Load() > 0 || n < 10 {
		t.Errorf("%d of %d calls failed", failed.Load(), n)
	}
}

// TestStopGoesAheadInSpiteOfIdleStreams: a watcher of health stays for ever.
func TestStopGoesAheadInSpiteOfIdleStreams(t *testing.T) {
	p := start(t, func(s *settings.Settings) { s.ShutdownTimeout = 100 * time.Millisecond })
	watch, err := healthpb.NewHealthClient(p.dial(t)).Watch(t.Context(), &healthpb.HealthCheckRequest{Service: "ratelimit"})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := watch.Recv(); err != nil || got.Status != healthpb.HealthCheckResponse_SERVING {
		t.Fatalf("%v, %v", got, err)
	}
	begin := time.Now()
	p.end()
	if got, err := watch.Recv(); err != nil || got.Status != healthpb.HealthCheckResponse_NOT_SERVING {
		t.Errorf("the watcher is told %v, %v", got, err)
	}
	if err := p.stop(); err != nil || time.Since(begin) > 10*time.Second {
		t.Errorf("it took %v to stop: %v", time.Since(begin), err)
	}
}
