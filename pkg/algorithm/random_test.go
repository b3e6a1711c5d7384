package algorithm

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// randomLimit returns a limit of any algorithm, size and window, and small ones
// often.
func randomLimit(r *rand.Rand) *Limit {
	requests := []uint64{0, 1, 1, 2, 3, 3, 7, 10, 10, 60, 100, 999, 6000, 10_000, 70_000, 3_000_000, 1_000_000_000, MaxRequests}
	windows := []time.Duration{
		time.Millisecond, 1537 * time.Microsecond, 10 * time.Millisecond, time.Second, time.Second, 1500 * time.Millisecond,
		10 * time.Second, 15 * time.Second, time.Minute, time.Minute, time.Hour, 24 * time.Hour, 7 * 24 * time.Hour,
		30 * 24 * time.Hour, 365 * 24 * time.Hour, MaxWindow,
	}
	for {
		spec := Spec{
			Algorithm: All[r.IntN(len(All))].Name,
			Requests:  requests[r.IntN(len(requests))],
			Window:    windows[r.IntN(len(windows))],
			Overdraw:  r.IntN(8) == 0,
		}
		if r.IntN(3) == 0 {
			spec.Burst = uint64(1 + r.IntN(50))
		}
		if l, err := NewLimit(spec); err == nil {
			return l
		}
	}
}

func (l *Limit) String() string {
	return fmt.Sprintf("%s %d per %v, burst %d, overdraw %v", l.Algorithm.Name, l.Requests, l.Window, l.Capacity, l.Overdraw)
}

// The clock of random histories stays where 2 × MaxWindow from it is exact.
const earliest, latest = int64(1.5e15), int64(2.2e15)

// randomStep moves a clock on, mostly a little, and sometimes back or far.
func randomStep(r *rand.Rand, l *Limit, now int64) int64 {
	share := func(n int) int64 { return l.windowµ / int64(n) }
	steps := []func() int64{
		func() int64 { return 0 },
		func() int64 { return 0 },
		func() int64 { return 1 },
		func() int64 { return r.Int64N(share(1)/max(1, l.Requests) + 2) },
		func() int64 { return r.Int64N(share(10) + 1) },
		func() int64 { return r.Int64N(share(1) + 1) },
		func() int64 { return share(1) - now%l.windowµ - int64(r.IntN(2)) }, // the edge of a window
		func() int64 { return share(1) + r.Int64N(share(1)) },
		func() int64 { return -r.Int64N(share(10) + 2) },
		func() int64 { return -r.Int64N(share(1) + 1) },
		func() int64 { return int64(r.IntN(12)-6) * share(1) },
		func() int64 { return int64(r.IntN(4001) - 2000) },
	}
	return min(max(now+steps[r.IntN(len(steps))](), earliest), latest)
}

func randomHits(r *rand.Rand, l *Limit) int64 {
	switch r.IntN(8) {
	case 0:
		return 0
	case 1:
		return r.Int64N(l.Capacity + 3)
	case 2:
		return l.Capacity
	case 3:
		return r.Int64N(l.Capacity/4 + 2)
	default:
		return 1
	}
}

// TestAgreesWithNaiveTwin plays single asks against each algorithm and its twin
// by definition, and asks the twin whether each retry-after is the least.
func TestAgreesWithNaiveTwin(t *testing.T) {
	const limits, steps = 700, 160
	for seed := range uint64(limits) {
		r := rand.New(rand.NewPCG(seed, 1))
		l := randomLimit(r)
		l.Overdraw = false
		w := &twin{l: l}
		s := State{}
		now := earliest + r.Int64N(latest-earliest)
		for step := range steps {
			now = randomStep(r, l, now)
			ask := Ask{Limit: l, Hits: randomHits(r, l)}
			if r.IntN(10) == 0 {
				ask.Mode = GiveBack
			}
			w.settle(now)
			fits, used := w.judge(now, ask.Hits)
			d := decideOne(now, ask, &s)
			where := fmt.Sprintf("seed %d (%v) step %d at %d: %d hits, mode %d, %d in use", seed, l, step, now, ask.Hits, ask.Mode, used)
			if ask.Mode == GiveBack {
				fits = true
			}
			if (d.Outcome == Allowed) != fits || d.Before != used {
				t.Fatalf("%s: got %+v, want fits %v", where, d, fits)
			}
			switch {
			case ask.Mode == GiveBack && used > 0:
				w.tell(now, -ask.Hits)
			case ask.Mode == Charge && fits:
				w.tell(now, ask.Hits)
			}
			checkAfter(t, w, now, ask, d, where)
		}
	}
}

// checkAfter compares what a decision says about the time to come.
func checkAfter(t *testing.T, w *twin, now int64, ask Ask, d Decision, where string) {
	t.Helper()
	if _, used := w.judge(now, 0); d.After != used || d.Remaining != max(0, w.l.Capacity-used) {
		t.Fatalf("%s: got %+v, want %d in use after", where, d, used)
	}
	if reset := now + d.Reset.Microseconds(); d.Reset > 0 {
		if _, used := w.judge(reset, 0); used != 0 {
			t.Fatalf("%s: %+v, yet %d in use at the reset", where, d, used)
		}
	}
	switch retry := now + d.RetryAfter.Microseconds(); {
	case d.Outcome == Allowed:
		if d.RetryAfter != 0 || d.Never {
			t.Fatalf("%s: allowed, yet %+v", where, d)
		}
	case d.Never:
		if ask.Hits <= w.l.Capacity || d.RetryAfter != w.l.Window {
			t.Fatalf("%s: %+v", where, d)
		}
	default:
		if fits, _ := w.judge(retry, ask.Hits); !fits {
			t.Fatalf("%s: %+v, and would not pass then", where, d)
		}
		if fits, _ := w.judge(retry-1, ask.Hits); fits {
			t.Fatalf("%s: %+v, and would pass before", where, d)
		}
	}
}

// decideOne decides a single ask.
func decideOne(now int64, a Ask, s *State) Decision {
	var out [1]Decision
	Decide(now, []Ask{a}, []*State{s}, out[:])
	return out[0]
}
