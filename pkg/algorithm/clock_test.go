package algorithm

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestFlappingClockBuysNothing lets the clock of a key step back and forth
// within a span of less than a window, with charges, looks and costs that never
// fit, and counts what was admitted in all.
func TestFlappingClockBuysNothing(t *testing.T) {
	const limit, steps = 10, 5_000
	window := 10 * time.Second
	edge := int64(1e15) - int64(1e15)%window.Microseconds()
	for _, c := range []struct {
		algorithm *Algorithm
		span      int64 // µs around a window's edge
		most      int64
	}{
		{FixedWindow, 2_000, 2 * limit}, // one window before the edge, one after it
		{FixedWindow, 9_000_000, 2 * limit},
		{SlidingWindowLog, 9_000_000, limit},
		{SlidingWindowCounter, 2_000, limit},
		{SlidingWindowCounter, 9_000_000, 2 * limit},
		{TokenBucket, 2_000, limit},
		{TokenBucket, 9_000_000, 2*limit - 1}, // the burst, and nine refilled
		{LeakyBucket, 9_000_000, 2*limit - 1},
	} {
		for seed := range uint64(20) {
			r := rand.New(rand.NewPCG(seed, 3))
			l := mustLimit(t, Spec{Algorithm: c.algorithm.Name, Requests: limit, Window: window})
			s, admitted := State{}, int64(0)
			for range steps {
				hits := []int64{1, 1, 2, 0, limit + 1}[r.IntN(5)]
				now := edge - c.span/2 + r.Int64N(c.span)
				if decideOne(now, Ask{Limit: l, Hits: hits}, &s).Outcome == Allowed {
					admitted += hits
				}
			}
			if admitted > c.most || admitted < limit {
				t.Errorf("%s over %v: admitted %d, want %d to %d", c.algorithm.Name, micros(c.span), admitted, limit, c.most)
			}
		}
	}
}

// TestWorstCases are those that the algorithms' documentation gives.
func TestWorstCases(t *testing.T) {
	const limit = 100
	window := time.Minute
	begin := int64(1e15) - int64(1e15)%window.Microseconds()
	for _, c := range []struct {
		algorithm *Algorithm
		most      int64 // within one window's length
	}{
		{FixedWindow, 200}, {SlidingWindowLog, 100}, {SlidingWindowCounter, 199}, {TokenBucket, 199}, {LeakyBucket, 199},
	} {
		l := mustLimit(t, Spec{Algorithm: c.algorithm.Name, Requests: limit, Window: window})
		s := State{}
		ask := Ask{Limit: l, Hits: 1}
		admitted := int64(0)
		// As much as passes at the end of one window, and then all through
		// the next but for its last moment.
		for now := begin + window.Microseconds() - 1; now < begin+2*window.Microseconds()-1; now += 100_000 {
			for decideOne(now, ask, &s).Outcome == Allowed {
				admitted++
			}
		}
		if admitted != c.most {
			t.Errorf("%s: admitted %d within a window's length, want %d", c.algorithm.Name, admitted, c.most)
		}
	}
}
