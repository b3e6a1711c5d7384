package main

import (
	"context"
	"fmt"
	"math"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

// Requests are what the protocol's own decoder reads.
func TestRequests(t *testing.T) {
	requests := encodeRequests("user", 6, 3)
	if len(requests) != 6 {
		t.Fatalf("%d requests, want one for each value", len(requests))
	}
	var got rlsv3.RateLimitRequest
	if err := proto.Unmarshal(requests[4][5:], &got); err != nil {
		t.Fatal(err)
	}
	var values []string
	for _, d := range got.Descriptors {
		values = append(values, d.Entries[0].Key+"="+d.Entries[0].Value)
	}
	if want := []string{"user=u4", "user=u0", "user=u2"}; got.Domain != domain || !slices.Equal(values, want) {
		t.Errorf("domain %s, descriptors %v; want %s, %v", got.Domain, values, domain, want)
	}
}

func TestOverallCode(t *testing.T) {
	over, err := proto.Marshal(&rlsv3.RateLimitResponse{OverallCode: rlsv3.RateLimitResponse_OVER_LIMIT})
	if err != nil {
		t.Fatal(err)
	}
	prefix := string(make([]byte, 5))
	for _, test := range []struct {
		name, framed string
		want         uint64
	}{
		{"over the limit", prefix + string(over), 2},
		{"nothing", "", 0},
		{"an empty message", prefix, 0},
		{"a message that is cut off", prefix + "\x08", 0},
		{"another field first", prefix + "\x10\x02", 0},
	} {
		if got := overallCode([]byte(test.framed)); got != test.want {
			t.Errorf("%s: code %d, want %d", test.name, got, test.want)
		}
	}
}

// serve runs a server of the tool in this process until the test's end.
func serve(t *testing.T, role string) string {
	t.Helper()
	free, err := freeAddresses(1)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = roles[role](free[0], nil) }()
	for end := time.Now().Add(startPatience); ; time.Sleep(time.Millisecond) {
		nc, err := net.Dial("tcp", free[0])
		if err == nil {
			nc.Close()
			return free[0]
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// Every request of a load is answered, by both floors, whether it waits for
// answers or not.
func TestLoads(t *testing.T) {
	for _, role := range []string{"frame-floor", "grpc-floor"} {
		address := serve(t, role)
		for _, rate := range []float64{0, 20_000} {
			t.Run(fmt.Sprintf("%s/rate=%g", role, rate), func(t *testing.T) {
				a, err := drive(t.Context(), load{
					address: address, requests: encodeRequests(ample, 100, 2), count: 2001, connections: 2, streams: 8, rate: rate,
				})
				if err != nil {
					t.Fatal(err)
				}
				if a.ok != 2001 || a.over != 0 || a.failed != 0 || len(a.latencies) != 2001 {
					t.Errorf("ok %d, over %d, failed %d (%s), latencies %d; want 2001 ok", a.ok, a.over, a.failed, a.failure, len(a.latencies))
				}
				if a.latencies[0] <= 0 || !slices.IsSorted(a.latencies) {
					t.Errorf("latencies from %v are not sorted or not positive", a.latencies[0])
				}
				if rate > 0 && a.took < 50*time.Millisecond {
					t.Errorf("2001 requests at %g a second took only %v", rate, a.took)
				}
			})
		}
	}
}

// A load ends, with an error, when the server goes away or never answers.
func TestLoadsEnd(t *testing.T) {
	for _, silent := range []bool{true, false} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		go func() {
			for {
				nc, err := listener.Accept()
				if err != nil {
					return
				}
				if !silent {
					nc.Close()
				}
			}
		}()
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err = drive(ctx, load{address: listener.Addr().String(), requests: encodeRequests(ample, 1, 1), count: 5000, connections: 2, streams: 4})
		if err == nil {
			t.Errorf("silent %v: no error", silent)
		}
	}
}

// The processor's time of a process grows with what it does.
func TestOwnTime(t *testing.T) {
	before := ownTime()
	for end := time.Now().Add(20 * time.Millisecond); time.Now().Before(end); {
	}
	if got := ownTime() - before; got < 2*time.Millisecond {
		t.Errorf("20 ms of work took %v of the processor", got)
	}
}

func TestMedian(t *testing.T) {
	self := func(f float64) float64 { return f }
	for _, test := range []struct {
		figures []float64
		want    float64
	}{
		{nil, 0},
		{[]float64{3}, 3},
		{[]float64{9, 1, 2}, 2},
		{[]float64{4, 1, 3, 2}, 2.5},
	} {
		if got := median(test.figures, self); got != test.want {
			t.Errorf("median of %v is %v, want %v", test.figures, got, test.want)
		}
	}
}

func TestQuantile(t *testing.T) {
	var d []time.Duration
	for i := range 100 {
		d = append(d, time.Duration(i)*time.Microsecond)
	}
	for q, want := range map[float64]float64{0: 0, .5: 50, .99: 99, 1: 99} {
		if got := quantile(d, q); math.Abs(got-want) > 1e-9 {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
	if got := quantile(nil, .5); got != 0 {
		t.Errorf("quantile of nothing is %v", got)
	}
}

// A ratio is of figures of the same round: what slows a whole round down is
// not in it.
func TestRatioIsOfTheSameRound(t *testing.T) {
	floor := &row{Samples: []sample{{Server: 2}, {Server: 20}, {Server: 4}}}
	other := &row{Samples: []sample{{Server: 3, Redis: 1}, {Server: 30, Redis: 10}, {Server: 6, Redis: 2}}}
	if got := ratio(other, togetherTime, floor, serverTime); got != 2 {
		t.Errorf("ratio %v, want 2", got)
	}
}

func TestTable(t *testing.T) {
	got := table([]string{"load", "µs"}, [][]string{{"one", "1.50"}, {"another", "12.00"}})
	want := strings.TrimLeft(`
| load    |    µs |
| ------- | ----: |
| one     |  1.50 |
| another | 12.00 |
`, "\n")
	if got != want {
		t.Errorf("table\n%swant\n%s", got, want)
	}
}

func TestSteps(t *testing.T) {
	if got, want := fmt.Sprint(steps(2, 100)), "[2 5 10 20 50 100]"; got != want {
		t.Errorf("steps %s, want %s", got, want)
	}
}

// The policy compiles for every algorithm, and its limits are as they are
// meant.
func TestPolicy(t *testing.T) {
	for _, name := range []string{"fixed_window", "sliding_window_log", "sliding_window_counter", "token_bucket", "leaky_bucket"} {
		rules, err := compile(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, l := range rules.Limits() {
			if l.Limit.Algorithm.Name != name {
				t.Errorf("%s: the limit of %s is of %s", name, l.ID, l.Limit.Algorithm.Name)
			}
		}
	}
}
