package main

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/ratelimitd/ratelimitd/internal/programtest"
	"github.com/ratelimitd/ratelimitd/internal/redistest"
)

// TestHostileTrafficLeavesNothing: 100,000 domains, values and overrides, each
// another one, make no series, no line of the log, and keep no memory, besides
// the counters that a store in memory has.
func TestHostileTrafficLeavesNothing(t *testing.T) {
	for name, store := range map[string][]string{
		"redis":  {"RATELIMITD_STORE=redis", "RATELIMITD_REDIS_URL=" + redistest.Start(t, redistest.Options{}).URL(), "RATELIMITD_STORE_TIMEOUT=10s"},
		"memory": {"RATELIMITD_STORE=memory", "RATELIMITD_MEMORY_MAX_KEYS=1000", "RATELIMITD_STATSD_ADDRESS=127.0.0.1:" + listener(t)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, grpcAddress := t.TempDir(), free(t)
			write(t, dir+"/a.yaml", policy("3"))
			p, address := serve(t, append(store, "RATELIMITD_POLICIES="+dir, "RATELIMITD_GRPC_ADDRESS="+grpcAddress)...)
			eventually(t, "ready", func() bool { return healthcheck(address) == 200 })
			client := clientOf(t, grpcAddress)
			flood(t, client, 0, 3000, hostile) // pools and connections are what they will be
			series := seriesOf(t, address)
			before := held(t, p)
			flood(t, client, 3000, 103_000, hostile)
			if now := seriesOf(t, address); now != series {
				t.Errorf("%d series, then %d", series, now)
			}
			before.wantNoMore(t, p)
		})
	}
}

// holding is what a program has taken.
type holding struct {
	lines  int // of the log
	memory int64
}

func held(t *testing.T, p *programtest.Process) holding {
	t.Helper()
	return holding{strings.Count(p.Log.String(), "\n"), resident(t, p.Cmd.Process.Pid)}
}

// wantNoMore fails the test unless the program has logged nothing since, and has
// taken less than 20 MB.
func (h holding) wantNoMore(t *testing.T, p *programtest.Process) {
	t.Helper()
	var now holding
	eventually(t, "memory is as before", func() bool {
		now = held(t, p)
		return now.memory-h.memory < 20<<20
	})
	if now.lines > h.lines+5 {
		t.Errorf("%d lines of the log, then %d", h.lines, now.lines)
	}
	t.Logf("%d lines, %d KiB more memory", now.lines, (now.memory-h.memory)>>10)
}

// clientOf returns a gRPC client of an address.
func clientOf(t *testing.T, address string) rlsv3.RateLimitServiceClient {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return rlsv3.NewRateLimitServiceClient(conn)
}

// flood sends the requests of all numbers in a range, sixteen at a time; every
// hundredth is told to be many.
func flood(t *testing.T, client rlsv3.RateLimitServiceClient, from, to int, requests func(i int, many bool) []*rlsv3.RateLimitRequest) {
	t.Helper()
	var workers sync.WaitGroup
	for worker := range 16 {
		workers.Go(func() {
			for i := from + worker; i < to; i += 16 {
				for _, r := range requests(i, i%100 == 0) {
					if _, err := client.ShouldRateLimit(t.Context(), r); err != nil {
						t.Errorf("request %d: %v", i, err)
						return
					}
				}
			}
		})
	}
	workers.Wait()
}

// hostile is a request for a domain of its own, and with many the next hundred
// values and overrides, each another one.
func hostile(i int, many bool) []*rlsv3.RateLimitRequest {
	all := []*rlsv3.RateLimitRequest{request(fmt.Sprintf("domain%d", i), "a", "x")}
	if !many {
		return all
	}
	values, overrides := request("t", "a", "x"), request("t", "a", "x")
	values.Descriptors, overrides.Descriptors = nil, nil
	for n := i; n < i+100; n++ {
		values.Descriptors = append(values.Descriptors, request("t", "a", fmt.Sprintf("value%d", n)).Descriptors...)
		override := request("t", "a", "x").Descriptors[0]
		override.Limit = &ratelimitv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: uint32(n + 1), Unit: typev3.RateLimitUnit_HOUR}
		overrides.Descriptors = append(overrides.Descriptors, override)
	}
	return append(all, values, overrides)
}

// seriesOf is how many series the metrics have, but for outcomes, each of which
// shows when it has happened first: by chance, and few.
func seriesOf(t *testing.T, address string) int {
	t.Helper()
	response, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "#") {
			name, _, _ := strings.Cut(line, " ")
			names[outcomes.ReplaceAllString(name, "")] = true
		}
	}
	return len(names)
}

var outcomes = regexp.MustCompile(`outcome="\w+"`)
