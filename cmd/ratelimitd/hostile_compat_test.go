package main

import (
	"fmt"
	"net"
	"strings"
	"testing"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/ratelimitd/ratelimitd/internal/programtest"
	"github.com/ratelimitd/ratelimitd/internal/redistest"
)

// tellingRules is how many rules telling has: as many as may have names of their own, and more.
const tellingRules = 12

// telling is a policy with rules whose counters' names have values of requests in them, in each of the ways that there are.
func telling() string {
	var b strings.Builder
	b.WriteString("domain: t\ndescriptors:\n  - {key: a, rate_limit: {unit: hour, requests_per_unit: 3}}\n")
	for i := range tellingRules {
		fmt.Fprintf(&b, "  - {key: k%d, %s}\n", i, [...]string{
			"detailed_metric: true, rate_limit: {unit: hour, requests_per_unit: 5}",
			"value_to_metric: true, rate_limit: {unit: hour, requests_per_unit: 0}",
			"value: v*, value_to_metric: true, rate_limit: {unit: hour, requests_per_unit: 5}",
			"value: v*, detailed_metric: true, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 0}",
		}[i%4])
	}
	return b.String()
}

// telltale is a request for a domain of its own, and with many one for the next hundred values of the rules and one for
// overrides.
func telltale(i int, many bool) []*rlsv3.RateLimitRequest {
	all := hostile(i, many)
	if many {
		for n, d := range all[1].GetDescriptors() {
			d.Entries[0].Key = fmt.Sprintf("k%d", n%tellingRules)
		}
	}
	return all
}

// TestHostileTrafficLeavesNothingInCompat: as TestHostileTrafficLeavesNothing,
// in the place of envoyproxy/ratelimit, where values of requests are in the
// names of metrics, and remembered when they are over, whichever way the metrics
// go.
func TestHostileTrafficLeavesNothingInCompat(t *testing.T) {
	dir, page := t.TempDir(), free(t)
	write(t, dir+"/r/config/a.yaml", telling())
	for name, sink := range map[string][]string{
		"statsd":     {"STATSD_PROTOCOL=udp", "STATSD_PORT=" + listener(t), "STATS_FLUSH_INTERVAL=500ms"},
		"Prometheus": {"USE_STATSD=false", "USE_PROMETHEUS=true", "PROMETHEUS_ADDR=" + page},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			redis := redistest.Start(t, redistest.Options{})
			p, address, grpcAddress := serveCompatBinary(t, append(sink, "REDIS_SOCKET_TYPE=tcp", "REDIS_URL="+redis.Address, "RUNTIME_ROOT="+dir,
				"RUNTIME_SUBDIRECTORY=r", "LOCAL_CACHE_SIZE_IN_BYTES=1000000", "RESPONSE_DYNAMIC_METADATA=true", "LIMIT_RESPONSE_HEADERS_ENABLED=true")...)
			eventually(t, "ready", func() bool { return healthcheck(address) == 200 })
			client, series := clientOf(t, grpcAddress), 0
			scrape := func() {
				if name == "Prometheus" {
					series = seriesOf(t, page)
				}
			}
			flood(t, client, 0, 3000, func(i int, many bool) []*rlsv3.RateLimitRequest { return telltale(i%50, many) }) // the same again and again
			scrape()
			before := held(t, p)
			flood(t, client, 3000, 103_000, telltale)
			scrape()
			if series > 10_000 {
				t.Errorf("%d series", series)
			}
			before.wantNoMore(t, p)
		})
	}
}

// listener takes datagrams, and returns its port.
func listener(t *testing.T) string {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	go func() {
		for packet := make([]byte, 1<<16); err == nil; {
			_, _, err = conn.ReadFrom(packet)
		}
	}()
	_, port, _ := net.SplitHostPort(conn.LocalAddr().String())
	return port
}

// serveCompatBinary starts the binary in the place of envoyproxy/ratelimit, and returns it with the addresses of its HTTP pages
// and of gRPC.
func serveCompatBinary(t *testing.T, environment ...string) (p *programtest.Process, address, grpcAddress string) {
	t.Helper()
	address, grpcAddress = free(t), free(t)
	port := func(address string) string {
		_, port, _ := net.SplitHostPort(address)
		return port
	}
	return programtest.Start(t, command(t, append([]string{
		"HOST=127.0.0.1", "GRPC_HOST=127.0.0.1", "PORT=" + port(address), "GRPC_PORT=" + port(grpcAddress), "DEBUG_PORT=" + port(free(t)),
	}, environment...), "--compat")), address, grpcAddress
}
