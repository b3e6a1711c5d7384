//go:build !race

package main

// The race detector lets pools forget at random, so allocations are counted
// without it.

import (
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/ratelimitd/ratelimitd/internal/otlptest"
	"github.com/ratelimitd/ratelimitd/pkg/backend"
	"github.com/ratelimitd/ratelimitd/pkg/descriptors"
	"github.com/ratelimitd/ratelimitd/pkg/service"
	"github.com/ratelimitd/ratelimitd/pkg/tracing"
	"github.com/ratelimitd/ratelimitd/pkg/transport"
)

// tracingCases are ways for a request to be traced or not.
var tracingCases = []struct {
	name, parent string
	on           bool
	ratio        float64
}{
	{name: "off"},
	{name: "off, with a parent", parent: sampledParent},
	{name: "on, not sampled", on: true},
	{name: "on, parent not sampled", on: true, ratio: 1, parent: unsampledParent},
	{name: "on, sampled", on: true, parent: sampledParent},
}

// callsOf returns what answers a batch of calls with that parent, marks
// included, on a store in memory.
func callsOf(t testing.TB, on bool, ratio float64, parent string, size int) (answer func()) {
	t.Helper()
	collector := otlptest.Start(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.HTTP)
	s := &spans{}
	if on {
		var err error
		if s.tracer, err = tracing.Open(t.Context(), tracing.Options{Ratio: ratio, Log: slog.New(slog.DiscardHandler)}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.flush(time.Now().Add(time.Second)) })
	}
	memory := backend.NewMemory(backend.MemoryOptions{MaxKeys: 1000})
	t.Cleanup(memory.Close)
	rateLimit, err := service.New(memory, service.DefaultOptions(), nil)
	if err != nil {
		t.Fatal(err)
	}
	rules, err := descriptors.Compile([]descriptors.File{{Name: "edge.yaml", Text: []byte("domain: edge\ndescriptors:\n  - {key: user, rate_limit: {requests_per_unit: 1000000, unit: hour}}\n")}}, descriptors.Options{})
	if err != nil {
		t.Fatal(err)
	}
	rateLimit.SetRules(rules)
	headers := map[string]string{"traceparent": parent, "x-envoy-internal": "true"}
	header := func(name string) string { return headers[name] }
	a := &answerer{service: rateLimit, spans: s}
	calls := make([]*transport.Call, size)
	for i := range calls {
		wire, err := proto.Marshal(request("edge", "user", fmt.Sprint(i)))
		if err != nil {
			t.Fatal(err)
		}
		calls[i] = &transport.Call{Message: wire, Gone: new(atomic.Bool)}
	}
	return func() {
		now := time.Now()
		for _, c := range calls {
			c.Mark, c.Arrived, c.Reply, c.Sent = s.mark(header), now, c.Reply[:0], nil
		}
		a.Handle(t.Context(), calls)
		for _, c := range calls {
			if len(c.Reply) == 0 {
				t.Fatal(c.Status)
			}
			if c.Sent != nil {
				c.Sent()
			}
		}
	}
}

// From its headers to its reply a request that is not traced allocates nothing.
func TestUntracedDoesNotAllocate(t *testing.T) {
	for _, test := range tracingCases {
		answer := callsOf(t, test.on, test.ratio, test.parent, 8)
		answer()
		n := testing.AllocsPerRun(100, answer)
		if traced := test.on && test.parent == sampledParent; (n >= 1) != traced {
			t.Errorf("%s: %v allocations in 8 requests", test.name, n)
		}
	}
}

// BenchmarkTracing is what tracing adds to a request that is decided in memory,
// but for reading and writing it.
func BenchmarkTracing(b *testing.B) {
	for _, test := range tracingCases {
		b.Run(test.name, func(b *testing.B) {
			const size = 8
			answer := callsOf(b, test.on, test.ratio, test.parent, size)
			b.ReportAllocs()
			for b.Loop() {
				answer()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/size, "ns/request")
		})
	}
}
