package algorithm

import (
	"math/rand/v2"
	"testing"
	"time"
)

// By OnlyOver counting a request of several is charged as its definition says: each key is looked at as it was before, and then
// all are charged, or those alone that would be over.
func TestOnlyOverAgreesWithItsDefinition(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 3))
		limits, used, states := make([]*Limit, 4), make([]int64, 4), make([]State, 4)
		for i := range limits {
			var err error
			if limits[i], err = NewLimit(Spec{Requests: uint64(r.IntN(12)), Window: time.Hour}); err != nil {
				t.Fatal(err)
			}
		}
		const now = int64(1.7e15)
		for step := range 40 {
			var asks []Ask
			var at []int
			var kept []*State
			for i := range limits { // each key once
				if r.IntN(2) == 0 {
					asks = append(asks, Ask{Key: []byte{byte(i)}, Limit: limits[i], Hits: int64(r.IntN(4)), Counting: OnlyOver, Quota: r.IntN(4) == 0})
					at, kept = append(at, i), append(kept, &states[i])
				}
			}
			if len(asks) == 0 {
				continue
			}
			over := make([]bool, len(asks))
			anyOver := false
			for j := range asks {
				over[j] = used[at[j]]+asks[j].Hits > limits[at[j]].Requests
				anyOver = anyOver || over[j]
			}
			out := make([]Decision, len(asks))
			Decide(now, asks, kept, out)
			for j := range asks {
				if over[j] || !anyOver {
					used[at[j]] += asks[j].Hits
				}
				if (out[j].Outcome == Denied) != over[j] || out[j].After != used[at[j]] || out[j].Remaining != max(0, limits[at[j]].Requests-used[at[j]]) {
					t.Fatalf("seed %d step %d ask %d: %+v, want over %v and %d in use", seed, step, j, out[j], over[j], used[at[j]])
				}
			}
		}
	}
}
