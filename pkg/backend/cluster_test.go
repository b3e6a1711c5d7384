package backend

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ratelimitd/ratelimitd/internal/redistest"
	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

func goroutines() int { return runtime.NumGoroutine() }

func TestCluster(t *testing.T) {
	c := redistest.StartCluster(t, redistest.Options{})
	r, reg := openRedis(t, c.URL(), nil)
	awaitReady(t, r)
	s := &testStore{decider: r, servers: c.Masters, keys: func(t *testing.T) int { return c.Keys(t) }, reg: reg}

	t.Run("SlotOfMatchesRedis", func(t *testing.T) {
		for _, k := range []string{"", "a", "123456789", "{a}b", "{}a", "{a", "a}", "a{b}c{d}", "{{a}}", "\x00\xff{\xfe}"} {
			if got, want := int(slotOf([]byte(k))), c.Slot(t, k); got != want {
				t.Errorf("slot of %q = %d, want %d", k, got, want)
			}
		}
	})
	t.Run("OneCallASlot", func(t *testing.T) {
		calls := func() (n int) {
			for _, node := range c.Masters {
				n += node.Calls(t, "evalsha") + node.Calls(t, "eval")
			}
			return n
		}
		l := limitOf(t, "token_bucket", 100, aLongTime)
		var asks []algorithm.Ask
		for i := range 12 {
			asks = append(asks, algorithm.Ask{Key: key(t, fmt.Sprint(i%4), fmt.Sprint(i)), Limit: l, Hits: 1, Group: int32(i / 3)})
		}
		before := calls()
		s.decide(t, asks...)
		if got := calls() - before; got != 4 {
			t.Errorf("%d script calls for keys in 4 slots, want 4", got)
		}
	})
	t.Run("SpreadRequestsGiveBack", func(t *testing.T) { spreadRequestsGiveBack(t, s) })
	t.Run("UndoAfterTheDeadline", func(t *testing.T) { undoAfterTheDeadline(t, s) })
	t.Run("SlotMovesUnderLoad", func(t *testing.T) { slotMovesUnderLoad(t, s, c) })
	t.Run("NodeGone", func(t *testing.T) { nodeGone(t, s, c) }) // last: it ends a node
}

// Requests that need a plentiful key and, in another slot, a scarce one: what
// the plentiful has charged for those that are denied comes back.
func spreadRequestsGiveBack(t *testing.T, s *testStore) {
	forEachAlgorithm(t, func(t *testing.T, name string) {
		plenty, scarce := limitOf(t, name, 1000, aLongTime), limitOf(t, name, 7, aLongTime)
		var admitted atomic.Int64
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				for range 10 {
					out := s.decide(t,
						algorithm.Ask{Key: key(t, "a", "plenty"), Limit: plenty, Hits: 2},
						algorithm.Ask{Key: key(t, "b", "scarce"), Limit: scarce, Hits: 1},
						algorithm.Ask{Key: key(t, "c", "shadow"), Limit: plenty, Hits: 1, Shadow: true})
					if out[0].Outcome == algorithm.Allowed && out[1].Outcome == algorithm.Allowed {
						admitted.Add(1)
					}
				}
			})
		}
		wg.Wait()
		if admitted.Load() != 7 {
			t.Errorf("%d admitted, want 7", admitted.Load())
		}
		got := show(s.decide(t,
			algorithm.Ask{Key: key(t, "a", "plenty"), Limit: plenty},
			algorithm.Ask{Key: key(t, "b", "scarce"), Limit: scarce},
			algorithm.Ask{Key: key(t, "c", "shadow"), Limit: plenty}))
		if want := "ok:986 ok:0 ok:840"; got != want {
			t.Errorf("in the end %s, want %s", got, want)
		}
	})
	wantMetric(t, s.reg, "ratelimitd_store_undone_total", float64(len(algorithm.All)*(160-7)))
	wantMetric(t, s.reg, "ratelimitd_store_undo_failed_total", 0)
}

// The caller's time is up before what was charged could be given back: it is
// given back all the same, after the answer.
func undoAfterTheDeadline(t *testing.T, s *testStore) {
	r := s.decider.(*Redis)
	l := limitOf(t, "fixed_window", 10, aLongTime)
	k := key(t, "a", "charged")
	s.decide(t, algorithm.Ask{Key: k, Limit: l, Hits: 4})
	expired, cancel := context.WithCancel(context.Background())
	cancel()
	asks := []algorithm.Ask{{Key: k, Limit: l, Hits: 4}, {Key: key(t, "b", "short"), Limit: l, Hits: 1}}
	decided := algorithm.Decision{Outcome: algorithm.Allowed, After: 4, Remaining: 6, Reset: time.Minute}
	out := []algorithm.Decision{decided, {Outcome: algorithm.Denied}}
	settle(expired, r, time.Now(), asks, out, [][2]int{{0, 2}})
	if out[0].After != 0 || out[0].Remaining != 10 {
		t.Errorf("shown as it stands: after %d, remaining %d; want 0, 10", out[0].After, out[0].Remaining)
	}
	after := func() int64 { return s.decide(t, algorithm.Ask{Key: k, Limit: l})[0].After }
	await(t, "the charge comes back", func() bool { return after() == 0 })

	// What is free before it could be given back is left alone, for by then others may have charged the same.
	s.decide(t, algorithm.Ask{Key: k, Limit: l, Hits: 4})
	out = []algorithm.Decision{decided, {Outcome: algorithm.Denied}}
	settle(t.Context(), r, time.Now().Add(-30*time.Second), asks, out, [][2]int{{0, 2}})
	if out[0].After != 0 || after() != 4 {
		t.Errorf("shown as %d, and stands at %d; want 0, 4", out[0].After, after())
	}
}

// A slot moves to another node and back while requests come in. None is
// counted twice or lost, and none fails: MOVED, ASK and TRYAGAIN say that a
// call did not run.
func slotMovesUnderLoad(t *testing.T, s *testStore, c *redistest.Cluster) {
	l := limitOf(t, "fixed_window", 1_000_000, aLongTime)
	slot := c.Slot(t, string(key(t, "moving", "")))
	const callers = 6
	var allowed, failed [callers]int64
	var lastErr atomic.Value
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for ctx.Err() == nil {
				asks := []algorithm.Ask{
					{Key: key(t, "moving", "shared"), Limit: l, Hits: 1},
					{Key: key(t, "moving", fmt.Sprint(i)), Limit: l, Hits: 1},
					{Key: key(t, "staying", "shared"), Limit: l, Hits: 1},
				}
				call, cancel := context.WithTimeout(context.Background(), 5*time.Second)
				out := make([]algorithm.Decision, len(asks))
				s.Decide(call, asks, out)
				cancel()
				if out[0].Outcome == algorithm.Allowed && out[2].Outcome == algorithm.Allowed {
					allowed[i]++
				} else {
					failed[i]++
					if out[0].Err != nil {
						lastErr.Store(out[0].Err)
					}
				}
			}
		})
	}
	for range 3 {
		for to := range c.Masters {
			c.MoveSlot(t, slot, to, func() { time.Sleep(20 * time.Millisecond) })
			time.Sleep(20 * time.Millisecond)
		}
	}
	stop()
	wg.Wait()
	var total, failures int64
	for i := range callers {
		total, failures = total+allowed[i], failures+failed[i]
		if got := s.decide(t, algorithm.Ask{Key: key(t, "moving", fmt.Sprint(i)), Limit: l})[0].After; got != allowed[i] {
			t.Errorf("caller %d: counted %d, allowed %d", i, got, allowed[i])
		}
	}
	for _, tag := range []string{"moving", "staying"} {
		if got := s.decide(t, algorithm.Ask{Key: key(t, tag, "shared"), Limit: l})[0].After; got != total {
			t.Errorf("%s: counted %d, allowed %d", tag, got, total)
		}
	}
	t.Logf("%d allowed, %d failed (%v)", total, failures, lastErr.Load())
	if total == 0 || failures > total/20 {
		t.Errorf("%d of %d requests failed: %v", failures, total+failures, lastErr.Load())
	}
}

// A node is gone: the keys of its slots follow their failure policy, all others
// are decided, and what a request has charged elsewhere follows its policy too.
func nodeGone(t *testing.T, s *testStore, c *redistest.Cluster) {
	r := s.decider.(*Redis)
	l := limitOf(t, "fixed_window", 10, aLongTime)
	dead := 0
	tags := map[bool][]string{} // by whether their slot's node is to die
	for i := range 40 {
		tag := fmt.Sprint(i)
		of := c.Owner(t, int(slotOf(key(t, tag, "")))) == dead
		tags[of] = append(tags[of], tag)
	}
	gone, there := tags[true], tags[false]
	c.Masters[dead].Kill()
	p := WithFailurePolicy(r, FailureOptions{Timeout: 500 * time.Millisecond})
	var asks []algorithm.Ask
	for i, tag := range append(gone[:3:3], there[:3]...) {
		asks = append(asks, algorithm.Ask{Key: key(t, tag, "own"), Limit: l, Hits: 1, Group: int32(i)})
	}
	out := make([]algorithm.Decision, len(asks))
	p.Decide(context.Background(), asks, out)
	for i := range out {
		if want := i >= 3; (out[i].Outcome == algorithm.Allowed) != want {
			t.Errorf("ask %d: %v %v", i, out[i].Outcome, out[i].Err)
		}
		if i < 3 && !errors.Is(out[i].Err, ErrUnavailable) && !errors.Is(out[i].Err, ErrLost) {
			t.Errorf("ask %d: %v", i, out[i].Err)
		}
	}
	for policy, want := range map[algorithm.FailurePolicy]int64{
		algorithm.FailAllow: 1, // the request passes: what the living slot charged stays
		algorithm.FailDeny:  0,
		algorithm.FailError: 0,
	} {
		pair := []algorithm.Ask{
			{Key: key(t, there[0], fmt.Sprint("spread", policy)), Limit: l, Hits: 1, OnStoreError: policy},
			{Key: key(t, gone[0], fmt.Sprint("spread", policy)), Limit: l, Hits: 1, OnStoreError: policy},
		}
		out := make([]algorithm.Decision, 2)
		p.Decide(context.Background(), pair, out)
		if out[0].Outcome != algorithm.Allowed || out[0].Degraded {
			t.Errorf("policy %d: the living slot's ask is %v, degraded %v", policy, out[0].Outcome, out[0].Degraded)
		}
		pair[0].Hits = 0
		if got := s.decide(t, pair[0])[0].After; got != want {
			t.Errorf("policy %d: the living slot's key stands at %d, want %d", policy, got, want)
		}
	}
	if err := r.Ping(t.Context()); err != nil {
		t.Errorf("Ping with two of three nodes: %v", err)
	}
	c.Masters[dead].Restart(t)
	await(t, "the node's keys are decided again", func() bool {
		p.Decide(context.Background(), asks[:1], out[:1])
		return out[0].Outcome == algorithm.Allowed
	})
}
