package service

import (
	"context"
	"fmt"
	"testing"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// instant allows everything at once, so that only the service is measured.
type instant struct{}

func (instant) Decide(_ context.Context, asks []algorithm.Ask, out []algorithm.Decision) {
	for i := range asks {
		out[i] = algorithm.Decision{Outcome: algorithm.Allowed, Before: 1, After: 2, Remaining: 8, Reset: 1e9}
	}
}

// refusing denies everything at once.
type refusing struct{}

func (refusing) Decide(_ context.Context, asks []algorithm.Ask, out []algorithm.Decision) {
	for i := range asks {
		out[i] = algorithm.Decision{Outcome: algorithm.Denied, Before: 9, After: 9, RetryAfter: 1e9, Reset: 2e9}
	}
}

// Memory that requests share through the pool must not leak from one to the
// next.
func TestRequestsInParallelKeepApart(t *testing.T) {
	s := start(t, DefaultOptions(), sitePolicy)
	for worker := range 8 {
		t.Run(fmt.Sprint(worker), func(t *testing.T) {
			t.Parallel()
			for call := range 200 {
				ask := fmt.Sprintf("(acct=w%d-%d)", worker, call)
				want := "OK OK:2/3@1849"
				if call%2 == 1 {
					ask, want = ask+"+(acct=x"+ask[6:len(ask)-1]+" hits=2)+(none=x)", "OK OK:2/3@1849 OK:1/3@1849 OK"
				}
				response, err := s.ask(t, ask)
				if got := show(response, err); got != want {
					t.Fatalf("%s: got %s, want %s", ask, got, want)
				}
			}
		})
	}
}

// Rules may change under load: each request meets one set or the other.
func TestRulesChangeUnderLoad(t *testing.T) {
	s := start(t, DefaultOptions(), sitePolicy)
	one, other := compile(t, sitePolicy), compile(t, "domain: t\ndescriptors:\n  - {key: site, rate_limit: {unit: hour, requests_per_unit: 20}}\n")
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			if i%2 == 0 {
				s.SetRules(other)
			} else {
				s.SetRules(one)
			}
			s.families(t)
		}
	}()
	for call := range 300 {
		response, err := s.ask(t, fmt.Sprintf("(site=%d)+(acct=%d)", call, call))
		switch got := show(response, err); got {
		case "OK OK:9/10@1849 OK:2/3@1849", "OK OK:19/20@1849 OK":
		default:
			t.Fatalf("got %s", got)
		}
	}
	close(stop)
	<-done
	s.SetRules(one)
	if got := s.decisions(t)["t/site within_limit"]; got < 250 || got > 300 {
		t.Errorf("%v decisions counted of 300", got)
	}
}

// BenchmarkOverGRPC is a whole service, with a real client and server, over a
// connection in memory.
func BenchmarkOverGRPC(b *testing.B) {
	s := start(b, DefaultOptions(), "domain: t\ndescriptors:\n  - {key: site, rate_limit: {unit: hour, requests_per_unit: 4294967295}}\n")
	request := parse(b, "(site=s)")
	ask := func(client rlsv3.RateLimitServiceClient) {
		if response, err := client.ShouldRateLimit(b.Context(), request); err != nil || response.OverallCode != rlsv3.RateLimitResponse_OK {
			b.Fatal(response, err)
		}
	}
	b.Run("one", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			ask(s.client)
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.SetParallelism(32)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				ask(s.client)
			}
		})
	})
}
