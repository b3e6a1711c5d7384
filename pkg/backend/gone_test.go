package backend

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// A request whose caller has left while it waited for its turn is not charged;
// the others of the same errand are.
func TestWhoHasLeftIsNotCharged(t *testing.T) {
	for _, shape := range []string{"redis", "cluster"} {
		t.Run(shape, func(t *testing.T) {
			s := openShape(t, shape)
			r := s.decider.(*Redis)
			awaitReady(t, r)
			l := limitOf(t, "fixed_window", 10, aLongTime)
			var gone, waits atomic.Bool
			gone.Store(true)
			names := []string{"none", "waits", "gone", "gone too", "last"}
			e := r.laneOf(t.Context(), key(t, "a", "none")).newErrand(context.Background())
			for i, name := range names {
				ask := algorithm.Ask{Key: key(t, "a", name), Limit: l, Hits: 1, Gone: []*atomic.Bool{nil, &waits, &gone, &gone, nil}[i]}
				e.add(&ask, []int32{0, 1, 2, 2, 3}[i])
				e.slots = append(e.slots, slotOf(ask.Key))
			}
			e.seal()
			r.runErrands([]*errand{e})
			for i, name := range names {
				want := int64(1)
				if e.asks[i].Gone == &gone {
					want = 0
					if e.out[i].Outcome != algorithm.Undecided || e.out[i].Err == nil {
						t.Errorf("%s: %v %v", name, e.out[i].Outcome, e.out[i].Err)
					}
				}
				if got := s.decide(t, algorithm.Ask{Key: key(t, "a", name), Limit: l})[0].After; got != want {
					t.Errorf("%s: %d charged, want %d", name, got, want)
				}
			}
		})
	}
}
