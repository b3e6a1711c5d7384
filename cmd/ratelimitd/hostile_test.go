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

	"github.com/ratelimitd/ratelimitd/internal/redistest"
)

// TestHostileTrafficLeavesNothing: 100,000 domains, values and overrides, each
// another one, make no series, no line of the log, and keep no memory.
func TestHostileTrafficLeavesNothing(t *testing.T) {
	redis := redistest.Start(t, redistest.Options{})
	dir, grpcAddress := t.TempDir(), free(t)
	write(t, dir+"/a.yaml", policy("3"))
	cmd, log, address := serve(t, "RATELIMITD_STORE=redis", "RATELIMITD_REDIS_URL="+redis.URL(), "RATELIMITD_POLICIES="+dir,
		"RATELIMITD_GRPC_ADDRESS="+grpcAddress, "RATELIMITD_STORE_TIMEOUT=10s")
	eventually(t, "ready", func() bool { return healthcheck(address) == 200 })
	conn, err := grpc.NewClient(grpcAddress, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	client := rlsv3.NewRateLimitServiceClient(conn)

	run := func(from, to int) {
		var workers sync.WaitGroup
		for worker := range 16 {
			workers.Go(func() {
				for i := from + worker; i < to; i += 16 {
					for _, r := range hostile(i, i%100 == 0) {
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
	run(0, 3000) // pools and connections are what they will be
	series, lines, memory := seriesOf(t, address), strings.Count(log.String(), "\n"), resident(t, cmd.Process.Pid)
	run(3000, 103_000)
	if now := seriesOf(t, address); now != series {
		t.Errorf("%d series, then %d", series, now)
	}
	if now := strings.Count(log.String(), "\n"); now > lines+5 {
		t.Errorf("%d lines of the log, then %d", lines, now)
	}
	var grown int64
	eventually(t, "memory is as before", func() bool {
		grown = resident(t, cmd.Process.Pid) - memory
		return grown < 20<<20
	})
	t.Logf("%d series, %d lines, %d KiB more memory", series, lines, grown>>10)
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
