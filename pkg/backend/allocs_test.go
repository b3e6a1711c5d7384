//go:build !race

package backend

// The race detector lets pools forget at random, so allocations are counted
// without it.

import (
	"context"
	"testing"
	"time"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// A store that does not answer costs no memory for each request.
func TestLocalDoesNotAllocate(t *testing.T) {
	p, _ := withLocal(t, silentStore{}, 2)
	asks, out := []algorithm.Ask{localAsk("k", limitOf(t, "fixed_window", 1_000_000, aLongTime), 1)}, make([]algorithm.Decision, 1)
	if n := testing.AllocsPerRun(100, func() { clear(out); p.answerRest(time.Now(), asks, out) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
	if out[0].Outcome != algorithm.Allowed {
		t.Error(out[0].Outcome)
	}
}

// Where nothing is shed it costs next to nothing; where all is, it needs no
// memory either.
func TestSheddingAllocatesNothing(t *testing.T) {
	l := limitOf(t, "fixed_window", 5, time.Hour)
	for _, strained := range []int64{0, 400, 2000} {
		store := &queuedStore{}
		s, _ := openShedding(t, quiet{store})
		store.a.set(strained)
		asks := ofEveryPriority(l)
		out := make([]algorithm.Decision, len(asks))
		if n := testing.AllocsPerRun(100, func() { s.Decide(context.Background(), asks, out) }); n >= 1 {
			t.Errorf("strain %d: %v allocations", strained, n)
		}
	}
}
