package algorithm

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

func TestShares(t *testing.T) {
	day := &Calendar{Unit: CalendarDay}
	for _, row := range []struct {
		spec Spec
		n    int
		want string // requests, capacity
	}{
		{Spec{Requests: 10, Window: time.Second}, 3, "3 3"},
		{Spec{Requests: 10, Window: time.Second}, 1, "10 10"},
		{Spec{Requests: 10, Window: time.Second}, 0, "10 10"},
		{Spec{Requests: 2, Window: time.Second}, 3, "1 1"},
		{Spec{Requests: 0, Window: time.Second}, 3, "0 0"}, // denies everything, in parts too
		{Spec{Requests: 10, Window: 24 * time.Hour, Calendar: day, Overdraw: true}, 3, "3 3"},
		{Spec{Requests: 10, Window: time.Second, Algorithm: "sliding_window_log"}, 4, "2 2"},
		{Spec{Requests: 10, Window: time.Second, Algorithm: "sliding_window_counter"}, 4, "2 2"},
		{Spec{Requests: 10, Window: time.Second, Algorithm: "token_bucket", Burst: 50}, 4, "2 12"},
		{Spec{Requests: 100, Window: time.Second, Algorithm: "leaky_bucket", Burst: 3}, 4, "25 1"},
		// 4e9 in a window that is a whole number of microseconds only: a third of
		// it does not reduce, so the burst shrinks until it is exact.
		{Spec{Requests: 4_000_000_001, Window: 4_000_000_001 * time.Microsecond, Algorithm: "token_bucket"}, 3, "1333333333 651041"},
		// At less than this rate not even one hit can be counted, so it is not shared.
		{Spec{Requests: 3, Window: 3_000_000_000_000_003 * time.Microsecond, Algorithm: "token_bucket", Burst: 1}, 2, "3 1"},
	} {
		l, err := NewLimit(row.spec)
		if err != nil {
			t.Fatal(err)
		}
		s := l.Share(row.n)
		if got := fmt.Sprint(s.Requests, s.Capacity); got != row.want {
			t.Errorf("%s %d by %d: %s, want %s", l.Algorithm.Name, l.Requests, row.n, got, row.want)
		}
		if s.Algorithm != l.Algorithm || s.Window != l.Window || s.Calendar != l.Calendar || s.Overdraw != l.Overdraw || s.Whole() != l {
			t.Errorf("%s %d by %d is of another limit", l.Algorithm.Name, l.Requests, row.n)
		}
		if again := s.Share(2); again.Whole() != l {
			t.Errorf("%s %d by %d: a share of a share is of another limit", l.Algorithm.Name, l.Requests, row.n)
		}
	}
}

// Whatever the limit, what all shares hold together is at most the limit, or
// one for each.
func TestSharesAreNoMoreThanTheWhole(t *testing.T) {
	for seed := range uint64(20_000) {
		r := rand.New(rand.NewPCG(seed, 1))
		spec := Spec{
			Algorithm: All[r.IntN(len(All))].Name,
			Requests:  1 + r.Uint64()%(1<<r.IntN(33)),
			Window:    time.Duration(1000+r.Int64N(1<<(10+r.IntN(41)))) * time.Microsecond,
		}
		l, err := NewLimit(spec)
		if err != nil {
			continue // too large to be one
		}
		n := int64(2 + r.IntN(100))
		s := l.Share(int(n))
		if s == l {
			t.Errorf("seed %d: %+v cannot be shared by %d", seed, spec, n)
			continue
		}
		if n*s.Capacity > max(l.Capacity, n) || n*s.Requests > max(l.Requests, n) || s.Capacity < 1 || s.Requests < 1 {
			t.Errorf("seed %d: %+v shared by %d is %d, %d", seed, spec, n, s.Requests, s.Capacity)
		}
	}
}
