package backend

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// countingStore counts the asks that reach a store, and notes the last.
type countingStore struct {
	decider
	asked int
	last  []algorithm.Ask
}

func (s *countingStore) Decide(ctx context.Context, asks []algorithm.Ask, out []algorithm.Decision) {
	s.asked += len(asks)
	s.last = append(s.last[:0], asks...)
	s.decider.Decide(ctx, asks, out)
}

// TestKnownOverDecidesLikeItsStore plays random histories with and without the
// memory of what is over: every verdict is the same, and so is all that happens
// to the counters.
func TestKnownOverDecidesLikeItsStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, reached := 0, 0
		for seed := range uint64(150) {
			random := rand.New(rand.NewPCG(seed, 5))
			plain, beneath := NewMemory(MemoryOptions{}), NewMemory(MemoryOptions{})
			store := &countingStore{decider: beneath}
			known := WithKnownOver(store, KnownOverOptions{})
			keys := randomKeys(t, random, fmt.Sprint(seed))
			for i := range keys {
				keys[i].tag = "" // requests of any keys
				keys[i].limit = limitOf(t, keys[i].limit.Algorithm.Name, uint64(1+random.IntN(6)), time.Duration(1+random.IntN(4000))*time.Millisecond)
			}
			for range 200 {
				if random.IntN(100) == 0 {
					i := random.IntN(len(keys))
					keys[i].limit = limitOf(t, keys[i].limit.Algorithm.Name, uint64(1+random.IntN(9)), keys[i].limit.Window)
				}
				counting := algorithm.Counting(random.IntN(8) / 7)
				var asks []algorithm.Ask
				for group := range int32(1 + random.IntN(3)) {
					asks = append(asks, randomRequest(random, keys, group, counting)...)
				}
				want, got := make([]algorithm.Decision, len(asks)), make([]algorithm.Decision, len(asks))
				plain.Decide(context.Background(), asks, want)
				known.Decide(context.Background(), asks, got)
				for i := range asks {
					if got[i].Outcome != want[i].Outcome || got[i].Never != want[i].Never || got[i].RetryAfter > want[i].RetryAfter {
						t.Fatalf("seed %d: ask %d of %+v\n got %+v\nwant %+v", seed, i, asks, got[i], want[i])
					}
					if want[i].Outcome == algorithm.Allowed && got[i] != want[i] {
						t.Fatalf("seed %d: ask %d of %+v\n got %+v\nwant %+v", seed, i, asks, got[i], want[i])
					}
				}
				asked += len(asks)
				time.Sleep(time.Duration(random.IntN(1<<random.IntN(20))) * time.Microsecond) // up to half a second
			}
			reached += store.asked
			plain.Close()
			beneath.Close()
		}
		t.Logf("%d asks, of which %d reached the store", asked, reached)
		if reached > asked*9/10 {
			t.Errorf("of %d asks %d reached the store", asked, reached)
		}
	})
}

func TestKnownOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		m := NewMemory(MemoryOptions{})
		defer m.Close()
		store := &countingStore{decider: m}
		k := WithKnownOver(store, KnownOverOptions{Registerer: reg})
		hour := limitOf(t, "fixed_window", 3, time.Hour)
		brief := limitOf(t, "token_bucket", 1, 300*time.Millisecond)
		ask := func(key string, l *algorithm.Limit, hits int64) algorithm.Ask {
			return algorithm.Ask{Key: []byte(key), Limit: l, Hits: hits}
		}
		with := func(a algorithm.Ask, change func(*algorithm.Ask)) algorithm.Ask { change(&a); return a }
		for i, step := range []struct {
			wait  time.Duration
			asks  []algorithm.Ask
			want  string
			asked int // how many reach the store
		}{
			{0, []algorithm.Ask{ask("a", hour, 3)}, "ok:0", 1},
			{0, []algorithm.Ask{ask("a", hour, 1)}, "over:0", 1}, // now it is known
			{0, []algorithm.Ask{ask("a", hour, 1)}, "over:0", 0},
			{0, []algorithm.Ask{ask("a", hour, 2)}, "over:0", 0}, // what is more is over as well
			{0, []algorithm.Ask{ask("a", hour, 0)}, "ok:0", 1},   // a look is not
			{0, []algorithm.Ask{ask("a", hour, 1), ask("b", hour, 1)}, "over:0 ok:3", 1},
			{0, []algorithm.Ask{ask("b", hour, 1), ask("a", hour, 1), ask("b", hour, 3)}, "ok:3 over:0 over:3", 2},
			{0, []algorithm.Ask{ask("b", hour, 1), with(ask("a", hour, 1), func(a *algorithm.Ask) { a.Shadow = true })}, "ok:2 over:0", 1},
			{999 * time.Millisecond, []algorithm.Ask{ask("a", hour, 1)}, "over:0", 0},
			{time.Millisecond, []algorithm.Ask{ask("a", hour, 1)}, "over:0", 1}, // no longer than a second
			{0, []algorithm.Ask{ask("a", limitOf(t, "fixed_window", 4, time.Hour), 1)}, "ok:0", 1},
			{0, []algorithm.Ask{ask("a", hour, 1)}, "over:0", 0}, // as the other limit said nothing
			{0, []algorithm.Ask{with(ask("a", hour, 2), func(a *algorithm.Ask) { a.Mode = algorithm.GiveBack })}, "ok:1", 1},
			{0, []algorithm.Ask{ask("a", hour, 2)}, "over:1", 1},
			{0, []algorithm.Ask{ask("a", hour, 1)}, "ok:0", 1},                 // less than what was refused
			{time.Millisecond, []algorithm.Ask{ask("t", brief, 1)}, "ok:0", 1}, // later than what was given back
			{0, []algorithm.Ask{ask("t", brief, 1)}, "over:0", 1},
			{299 * time.Millisecond, []algorithm.Ask{ask("t", brief, 1)}, "over:0", 0},
			{time.Millisecond, []algorithm.Ask{ask("t", brief, 1)}, "ok:0", 1}, // no longer than the retry-after
		} {
			time.Sleep(step.wait)
			store.asked = 0
			out := make([]algorithm.Decision, len(step.asks))
			k.Decide(context.Background(), step.asks, out)
			if got := show(out); got != step.want || store.asked != step.asked {
				t.Errorf("step %d: %s, %d reached the store; want %s, %d", i, got, store.asked, step.want, step.asked)
			}
		}
		wantMetric(t, reg, "ratelimitd_known_over_total", 8)
	})
}

// Of quotas one that fits is enough: those that are known to be over are left
// out, and a request of which all are does not pass.
func TestKnownOverQuotas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory(MemoryOptions{})
		defer m.Close()
		store := &countingStore{decider: m}
		k := WithKnownOver(store, KnownOverOptions{})
		one, many := limitOf(t, "fixed_window", 1, time.Hour), limitOf(t, "fixed_window", 9, time.Hour)
		asks := []algorithm.Ask{
			{Key: []byte("small"), Limit: one, Hits: 1, Quota: true}, {Key: []byte("tiny"), Limit: one, Hits: 1, Quota: true},
			{Key: []byte("rule"), Limit: many, Hits: 1},
		}
		charge := func(i int) { m.Decide(context.Background(), asks[i:i+1], make([]algorithm.Decision, 1)) }
		charge(0)
		for i, want := range []struct {
			text    string
			reached string
		}{
			{"over:0 ok:0 ok:8", "small tiny rule"},
			{"over:0 over:0 ok:8", "tiny rule"},
			{"over:0 over:0 ok:8", "rule withheld"},
		} {
			out := make([]algorithm.Decision, len(asks))
			k.Decide(context.Background(), asks, out)
			var reached []string
			for _, a := range store.last {
				reached = append(reached, string(a.Key))
				if a.Withheld {
					reached = append(reached, "withheld")
				}
			}
			if got := show(out); got != want.text || strings.Join(reached, " ") != want.reached {
				t.Errorf("step %d: %s, reached %v; want %s, %s", i, got, reached, want.text, want.reached)
			}
		}
	})
}

// heldStore lets the test decide when the store answers.
type heldStore struct {
	decider
	answer chan struct{}
}

func (s *heldStore) Decide(ctx context.Context, asks []algorithm.Ask, out []algorithm.Decision) {
	s.decider.Decide(ctx, asks, out)
	<-s.answer
}

// A denial that was decided before hits were given back, and arrives after, is
// not learned.
func TestKnownOverGiveBackOvertakesDenial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory(MemoryOptions{})
		defer m.Close()
		store := &heldStore{decider: m, answer: make(chan struct{})}
		k := WithKnownOver(store, KnownOverOptions{})
		l := limitOf(t, "fixed_window", 1, time.Hour)
		ask := algorithm.Ask{Key: []byte("k"), Limit: l, Hits: 1}
		m.Decide(context.Background(), []algorithm.Ask{ask}, make([]algorithm.Decision, 1))
		back := ask
		back.Mode = algorithm.GiveBack
		first := make(chan struct{})
		go func() {
			k.Decide(context.Background(), []algorithm.Ask{ask}, make([]algorithm.Decision, 1))
			close(first)
		}()
		synctest.Wait() // denied, and on its way
		second := make(chan struct{})
		go func() {
			k.Decide(context.Background(), []algorithm.Ask{back}, make([]algorithm.Decision, 1))
			close(second)
		}()
		synctest.Wait()
		store.answer <- struct{}{} // to either
		store.answer <- struct{}{}
		<-first
		<-second
		close(store.answer)
		if d := ask1(t, k, "k", l, 1); d.Outcome != algorithm.Allowed {
			t.Errorf("after hits were given back: %v", d.Outcome)
		}
	})
}

// Memory is bounded, and what is no longer worth knowing is dropped.
func TestKnownOverIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory(MemoryOptions{})
		defer m.Close()
		k := WithKnownOver(m, KnownOverOptions{MaxKeys: 1000})
		l := limitOf(t, "fixed_window", 1, time.Hour)
		for i := range 20_000 {
			ask1(t, k, fmt.Sprint(i), l, 2)
			if n := k.known.total.Load(); n > 1000 {
				t.Fatalf("%d keys are remembered", n)
			}
			if i%100 == 0 {
				time.Sleep(50 * time.Millisecond)
			}
		}
		time.Sleep(3 * time.Second)
		for i := range 2000 {
			k.known.over(time.Now(), &algorithm.Ask{Key: fmt.Append(nil, i)}, nil)
		}
		time.Sleep(2 * time.Second)
		for i := range 2000 {
			k.known.over(time.Now(), &algorithm.Ask{Key: fmt.Append(nil, i)}, nil)
		}
		if n := k.known.total.Load(); n != 0 {
			t.Errorf("%d keys are remembered in the end", n)
		}
	})
}

// TestKnownOverOfThousands: of a request with thousands of denied keys it
// remembers the first, rather than compare all with all.
func TestKnownOverOfThousands(t *testing.T) {
	beneath := NewMemory(MemoryOptions{})
	defer beneath.Close()
	store := &countingStore{decider: beneath}
	known := WithKnownOver(store, KnownOverOptions{})
	limit := limitOf(t, "fixed_window", 1, 24*time.Hour)
	asks := make([]algorithm.Ask, 2000)
	for i := range asks {
		asks[i] = algorithm.Ask{Key: fmt.Appendf(nil, "key %d", i), Limit: limit, Hits: 2}
	}
	out := make([]algorithm.Decision, len(asks))
	known.Decide(t.Context(), asks, out)
	store.asked = 0
	known.Decide(t.Context(), asks, out)
	if store.asked == 0 || store.asked == len(asks) {
		t.Errorf("%d of %d keys were asked of the store again", store.asked, len(asks))
	}
	for i := range out {
		if out[i].Outcome != algorithm.Denied {
			t.Fatalf("key %d: %v", i, out[i])
		}
	}
}

// TestKnownOverByReference: what is known to be over is not charged any more, where the options want that, and the other limits of
// its request are, unless only what is over is to be charged.
func TestKnownOverByReference(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory(MemoryOptions{})
		defer m.Close()
		store := &countingStore{decider: m}
		k := WithKnownOver(store, KnownOverOptions{Reference: true})
		small, large := limitOf(t, "fixed_window", 1, time.Hour), limitOf(t, "fixed_window", 9, time.Hour)
		for i, row := range []struct {
			counting   algorithm.Counting
			small      string
			asked      int
			used, left int64 // of the small one, and what is left of the large one
			known      bool
		}{
			{algorithm.Reference, "allowed", 2, 1, 8, false},
			{algorithm.Reference, "denied", 2, 2, 7, false},
			{algorithm.Reference, "denied", 1, 2, 6, true},
			{algorithm.OnlyOver, "denied", 1, 2, 6, true},
		} {
			store.asked = 0
			var out [2]algorithm.Decision
			k.Decide(t.Context(), []algorithm.Ask{
				{Key: []byte("a"), Limit: small, Hits: 1, Counting: row.counting},
				{Key: []byte("b"), Limit: large, Hits: 1, Counting: row.counting},
			}, out[:])
			if out[0].Outcome.String() != row.small || store.asked != row.asked || out[0].After != row.used || out[0].Known != row.known || out[1].Remaining != row.left {
				t.Errorf("step %d: %d asked, %+v", i, store.asked, out)
			}
		}
	})
}

// What is looked up is a hit or goes to the store, and what is remembered ends as
// one that is too old, is written over, or finds no room.
func TestKnownOverTellsHowItWasUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory(MemoryOptions{})
		defer m.Close()
		k := WithKnownOver(m, KnownOverOptions{MaxKeys: 128}) // one key a part
		l := limitOf(t, "fixed_window", 1, time.Hour)
		want := func(want KnownOverStats) {
			t.Helper()
			if got := k.Stats(); got != want {
				t.Errorf("%+v, want %+v", got, want)
			}
		}
		ask1(t, k, "a", l, 1)
		want(KnownOverStats{Lookups: 1})
		ask1(t, k, "a", l, 2)
		ask1(t, k, "a", l, 2)
		ask1(t, k, "a", l, 3)
		want(KnownOverStats{Lookups: 4, Hits: 2, Keys: 1})
		ask1(t, k, "a", l, 1) // less than what was refused
		want(KnownOverStats{Lookups: 5, Hits: 2, Keys: 1, Overwritten: 1})
		k.Decide(context.Background(), []algorithm.Ask{{Key: []byte("b"), Limit: l, Hits: 1, Mode: algorithm.GiveBack}}, make([]algorithm.Decision, 1))
		want(KnownOverStats{Lookups: 5, Hits: 2, Keys: 1, Overwritten: 1})
		time.Sleep(time.Millisecond) // what is asked as hits are given back is not remembered
		for i := range 1000 {
			ask1(t, k, fmt.Sprint(i), l, 2)
		}
		got := k.Stats()
		if got.Keys > 64 || got.WithoutRoom != uint64(1001-got.Keys) {
			t.Errorf("%+v after a thousand keys", got)
		}
		time.Sleep(3 * time.Second)
		for range 2 {
			for i := range 1000 {
				k.known.over(time.Now(), &algorithm.Ask{Key: fmt.Append(nil, i)}, nil)
			}
			time.Sleep(2 * time.Second)
		}
		want(KnownOverStats{Lookups: 1005, Hits: 2, Overwritten: 1, Expired: uint64(got.Keys), WithoutRoom: got.WithoutRoom})
	})
}
