//go:build !race

package backend

// The race detector lets pools forget at random, so allocations are counted
// without it.

import (
	"testing"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// A store that does not answer costs no memory for each request.
func TestLocalDoesNotAllocate(t *testing.T) {
	p, _ := withLocal(t, silentStore{}, 2)
	asks, out := []algorithm.Ask{localAsk("k", limitOf(t, "fixed_window", 1_000_000, aLongTime), 1)}, make([]algorithm.Decision, 1)
	if n := testing.AllocsPerRun(100, func() { clear(out); p.answerRest(asks, out) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
	if out[0].Outcome != algorithm.Allowed {
		t.Error(out[0].Outcome)
	}
}
