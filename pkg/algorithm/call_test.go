package algorithm

import (
	"slices"
	"testing"
	"time"
)

// Asks that are alike are one entry where nobody can tell the difference.
func TestLikeAsksAreOneEntry(t *testing.T) {
	l := mustLimit(t, Spec{Requests: 5, Window: time.Second})
	other := mustLimit(t, Spec{Requests: 6, Window: time.Second})
	log := mustLimit(t, Spec{Algorithm: SlidingWindowLog.Name, Requests: 5, Window: time.Second})
	ask := func(key string, group int32, l *Limit) Ask {
		return Ask{Key: []byte(key), Limit: l, Hits: 1, Group: group}
	}
	two := ask("a", 2, l)
	two.Hits = 2
	back := ask("a", 2, l)
	back.Mode = GiveBack
	held := ask("a", 2, l)
	held.Withheld = true
	for _, c := range []struct {
		what string
		asks []Ask
		want []uint32
	}{
		{"alike", []Ask{ask("a", 1, l), ask("a", 2, l), ask("a", 3, l)}, []uint32{3}},
		{"another key in between", []Ask{ask("a", 1, l), ask("b", 2, l), ask("a", 3, l), ask("b", 4, l)}, []uint32{2, 2}},
		{"a request of two in between, for other keys", []Ask{ask("a", 1, l), ask("b", 2, l), ask("c", 2, l), ask("a", 3, l)}, []uint32{2, 1, 1}},
		{"a request of two in between, for the key too", []Ask{ask("a", 1, l), ask("a", 2, l), ask("b", 2, l), ask("a", 3, l)}, []uint32{1, 1, 1, 1}},
		{"first of two, and alone", []Ask{ask("a", 1, l), ask("b", 1, l), ask("a", 2, l)}, []uint32{1, 1, 1}},
		{"other hits in between", []Ask{ask("a", 1, l), two, ask("a", 3, l), ask("a", 4, l)}, []uint32{1, 1, 2}},
		{"hits given back in between", []Ask{ask("a", 1, l), back, ask("a", 3, l)}, []uint32{1, 1, 1}},
		{"another limit in between", []Ask{ask("a", 1, l), ask("a", 2, other), ask("a", 3, l)}, []uint32{1, 1, 1}},
		{"one that is withheld in between", []Ask{ask("a", 1, l), held, ask("a", 3, l)}, []uint32{1, 1, 1}},
		{"for a log", []Ask{ask("a", 1, log), ask("a", 2, log)}, []uint32{1, 1}},
	} {
		var call Call
		call.Reset(c.asks, 0, 0, time.Second)
		var got []uint32
		for _, e := range call.entries {
			got = append(got, e.count)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: counts are %v, want %v", c.what, got, c.want)
		}
	}
}
