package algorithm

import (
	"testing"
	"time"
)

// BenchmarkDecide is the cost of one decision on a state in memory, without a
// store around it.
func BenchmarkDecide(b *testing.B) {
	for _, a := range All {
		b.Run(a.Name, func(b *testing.B) {
			l := mustLimit(b, Spec{Algorithm: a.Name, Requests: 1000, Window: time.Second})
			asks, out := []Ask{{Limit: l, Hits: 1}}, make([]Decision, 1)
			s := State{}
			states := []*State{&s}
			now := int64(1e15)
			b.ReportAllocs()
			for b.Loop() {
				now += 900
				Decide(now, asks, states, out)
			}
		})
	}
}
