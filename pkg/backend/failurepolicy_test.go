package backend

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// slowStore decides all asks after a while, or none when the context ends
// before.
type slowStore struct {
	takes time.Duration
	asked int
}

func (s *slowStore) Decide(ctx context.Context, asks []algorithm.Ask, out []algorithm.Decision) {
	s.asked += len(asks)
	select {
	case <-time.After(s.takes):
		for i := range out {
			out[i] = algorithm.Decision{Outcome: algorithm.Denied, Before: asks[i].Hits}
		}
	case <-ctx.Done():
		fail(out, ErrTimeout)
	}
}

func TestFailurePolicyKeepsTheDeadline(t *testing.T) {
	l := limitOf(t, "fixed_window", 5, time.Hour)
	const ms = time.Millisecond
	for i, row := range []struct {
		store, timeout, caller, request time.Duration // 0: no deadline
		want                            time.Duration // when it answers
		degraded                        bool
	}{
		{5 * ms, 20 * ms, 0, 0, 5 * ms, false},
		{time.Hour, 20 * ms, 0, 0, 20 * ms, true},
		{time.Hour, 0, 0, 0, DefaultTimeout, true},
		{time.Hour, 50 * ms, 20 * ms, 0, 20 * ms, true},
		{time.Hour, 50 * ms, 0, 10 * ms, 10 * ms, true},
		{time.Hour, 50 * ms, 20 * ms, 10 * ms, 10 * ms, true},
		{time.Hour, 50 * ms, 10 * ms, 40 * ms, 10 * ms, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			ctx := context.Background()
			if row.caller > 0 {
				var cancel func()
				ctx, cancel = context.WithTimeout(ctx, row.caller)
				defer cancel()
			}
			ask := algorithm.Ask{Key: []byte("k"), Limit: l, Hits: 1, OnStoreError: algorithm.FailDeny}
			if row.request > 0 {
				ask.Deadline = began.Add(row.request)
			}
			var out [1]algorithm.Decision
			WithFailurePolicy(&slowStore{takes: row.store}, FailureOptions{Timeout: row.timeout}).Decide(ctx, []algorithm.Ask{ask}, out[:])
			if took := time.Since(began); took != row.want || out[0].Degraded != row.degraded || out[0].Outcome != algorithm.Denied {
				t.Errorf("row %d: %v, degraded %v after %v; want degraded %v after %v", i, out[0].Outcome, out[0].Degraded, took, row.degraded, row.want)
			}
		})
	}
}

// A request that nobody waits for any more is not asked; its neighbours in the
// batch are, and have their own time.
func TestFailurePolicyDoesNotAskForTheExpired(t *testing.T) {
	l := limitOf(t, "fixed_window", 5, time.Hour)
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		store := &slowStore{takes: time.Millisecond}
		asks := []algorithm.Ask{
			{Key: []byte("a"), Limit: l, Hits: 1, Group: 0, Deadline: now.Add(time.Second)},
			{Key: []byte("b"), Limit: l, Hits: 2, Group: 1, Deadline: now},
			{Key: []byte("c"), Limit: l, Hits: 3, Group: 1},
			{Key: []byte("d"), Limit: l, Hits: 4, Group: 2},
		}
		out := make([]algorithm.Decision, len(asks))
		WithFailurePolicy(store, FailureOptions{}).Decide(context.Background(), asks, out)
		got := ""
		for i := range out {
			got += fmt.Sprintf("%v:%d ", out[i].Outcome, out[i].Before)
		}
		if want := "denied:1 undecided:0 undecided:0 denied:4 "; got != want || store.asked != 2 {
			t.Errorf("got %s(%d asked), want %s(2 asked)", got, store.asked, want)
		}
		if !errors.Is(out[1].Err, ErrTimeout) {
			t.Errorf("reason %v, want %v", out[1].Err, ErrTimeout)
		}
		if store.asked = 0; store.asked != 0 {
			t.Error("asked for nobody")
		}
		WithFailurePolicy(store, FailureOptions{}).Decide(context.Background(), asks[1:3], out)
		if store.asked != 0 {
			t.Errorf("%d asks for nobody", store.asked)
		}
	})
}

// silentStore decides nothing and says nothing.
type silentStore struct{}

func (silentStore) Decide(_ context.Context, asks []algorithm.Ask, out []algorithm.Decision) {
	clear(out[:len(asks)])
}

func TestFailurePolicyAnswers(t *testing.T) {
	reg := prometheus.NewRegistry()
	p := WithFailurePolicy(silentStore{}, FailureOptions{Registerer: reg})
	askEveryPolicy(t, p, limitOf(t, "leaky_bucket", 5, time.Hour), time.Second)
	wantMetric(t, reg, "ratelimitd_store_degraded_total", 3)

	// A huge cost is no reason for a strange number.
	var out [1]algorithm.Decision
	ask := algorithm.Ask{Key: []byte("k"), Limit: limitOf(t, "fixed_window", 5, time.Hour), Hits: 1<<63 - 1, OnStoreError: algorithm.FailAllow}
	p.Decide(context.Background(), []algorithm.Ask{ask}, out[:])
	if out[0].Outcome != algorithm.Allowed || out[0].Remaining != 0 {
		t.Errorf("%v, remaining %d; want allowed, 0", out[0].Outcome, out[0].Remaining)
	}
}
