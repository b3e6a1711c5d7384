package integration

import (
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// fleet is several ratelimitd on one Redis, with several Envoys in front that know them all.
type fleet struct {
	servers []*ratelimitd
	envoys  []*envoy
}

// startFleet starts n ratelimitd and m Envoys.
func startFleet(t *testing.T, policies string, n, m int) *fleet {
	t.Helper()
	f, settings := &fleet{}, startRedis(t)
	var addresses []string
	for range n {
		server := serve(t, policies, settings...)
		f.servers, addresses = append(f.servers, server), append(addresses, server.grpc)
	}
	for range m {
		f.envoys = append(f.envoys, startEnvoy(t, envoyOptions{ratelimitd: addresses, routes: byAlgorithm}))
	}
	return f
}

// clients returns n clients of each Envoy.
func (f *fleet) clients(t *testing.T, n int) []*client {
	t.Helper()
	var clients []*client
	for range n {
		for _, envoy := range f.envoys {
			clients = append(clients, envoy.client(t, ""))
		}
	}
	return clients
}

func (f *fleet) wantNoErrors(t *testing.T) {
	t.Helper()
	for _, envoy := range f.envoys {
		envoy.wantNoErrors(t)
	}
}

// Two Envoys and three ratelimitd on one Redis let exactly the limit through, when 200 requests come at once.
func TestExactlyTheLimitTogether(t *testing.T) {
	const limit, requests = 50, 200
	awayFromBoundary(t, longWindow)
	f := startFleet(t, algorithmPolicies(t, limit), 3, 2)
	clients := f.clients(t, 1)
	for _, a := range algorithm.All {
		t.Run(a.Name, func(t *testing.T) {
			var allowed, denied atomic.Int64
			var all sync.WaitGroup
			start := make(chan struct{})
			for i := range requests {
				all.Go(func() {
					<-start
					got, err := clients[i%len(clients)].get("/algorithm", "x-algorithm: "+a.Name, "x-user-id: everyone")
					switch {
					case err != nil:
						t.Error(err)
					case got.status == http.StatusOK:
						allowed.Add(1)
					case got.status == http.StatusTooManyRequests:
						denied.Add(1)
					}
				})
			}
			close(start)
			all.Wait()
			if allowed.Load() != limit || denied.Load() != requests-limit {
				t.Errorf("%d allowed and %d denied, want %d and %d", allowed.Load(), denied.Load(), limit, requests-limit)
			}
		})
	}
	f.wantNoErrors(t)
}

// Each ratelimitd in turn is stopped and started again, while requests come. None fails, none is lost or counted twice.
func TestRollingRestart(t *testing.T) {
	const limit = 1_000_000
	awayFromBoundary(t, longWindow)
	f := startFleet(t, policyDir(t, userPolicy(limit)), 3, 2)
	const user = "x-user-id: everyone"
	load := startLoad(t, f.clients(t, 4), "/user", []string{user}, func(a answer) error {
		if a.status != http.StatusOK || a.header.Get("X-Ratelimit-Remaining") == "" {
			return fmt.Errorf("status %d, remaining %q", a.status, a.header.Get("X-Ratelimit-Remaining"))
		}
		return nil
	})
	for _, server := range f.servers {
		server.Terminate(t, 20*time.Second)
		server.start(t)
		for _, envoy := range f.envoys {
			envoy.waitHealthy(t, len(f.servers))
		}
	}
	sent := load.stop(t)
	last := f.envoys[0].client(t, "").mustGet(t, "/user", user)
	if want := strconv.Itoa(limit - sent - 1); last.header.Get("X-Ratelimit-Remaining") != want {
		t.Errorf("after %d requests %s remain, want %s", sent+1, last.header.Get("X-Ratelimit-Remaining"), want)
	}
	f.wantNoErrors(t)
	t.Logf("%d requests", sent)
}
