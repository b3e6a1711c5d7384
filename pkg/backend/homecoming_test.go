package backend

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// forcedHits sums up what the store was asked to charge, by key, and how often.
func (s *switched) forcedHits() (hits map[string]int64, times map[string]int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	hits, times = map[string]int64{}, map[string]int{}
	for _, a := range s.forced {
		hits[string(a.Key)] += a.Hits
		times[string(a.Key)]++
	}
	return hits, times
}

// used is what stands in the store for a key.
func (s *switched) used(key string, l *algorithm.Limit) int64 {
	var out [1]algorithm.Decision
	s.Memory.Decide(context.Background(), []algorithm.Ask{{Key: []byte(key), Limit: l}}, out[:])
	return out[0].After
}

// forcedOnly fails what is charged by force.
func forcedOnly(reason error) func(*algorithm.Ask) error {
	return func(a *algorithm.Ask) error {
		if a.Mode == algorithm.Forced {
			return reason
		}
		return nil
	}
}

// recovery is more than it takes to bring a few keys home.
const recovery = time.Second

// An outage is no free refill: what was admitted in it counts afterwards, once.
func TestCountsComeHome(t *testing.T) {
	forEachAlgorithm(t, func(t *testing.T, name string) {
		for _, replicas := range []int{1, 2} {
			synctest.Test(t, func(t *testing.T) {
				store := newSwitched(t)
				p, reg := withLocal(t, store, replicas)
				l := limitOf(t, name, 10, time.Hour)
				decideAll(p, localAsk("k", l, 3))
				store.fail(ErrUnavailable)
				for range 4 {
					if d := decideAll(p, localAsk("k", l, 1))[0]; d.Outcome != algorithm.Allowed || !d.Degraded {
						t.Errorf("in the outage: %v, degraded %v", d.Outcome, d.Degraded)
					}
				}
				time.Sleep(time.Minute)
				if d := decideAll(p, localAsk("k", l, 0))[0]; !d.Degraded || d.After != 4 && name != "token_bucket" && name != "leaky_bucket" {
					t.Errorf("a minute later %d are in use, degraded %v", d.After, d.Degraded)
				}
				store.fail(nil)
				time.Sleep(recovery)
				// A bucket has got back ten a hour.
				if got := store.used("k", l); got != 7 {
					t.Errorf("the store stands at %d, want 7", got)
				}
				if hits, times := store.forcedHits(); times["k"] != 1 || hits["k"] != 4 {
					t.Errorf("charged %d in %d calls, want 4 in one", hits["k"], times["k"])
				}
				wantMetric(t, reg, "ratelimitd_local_hits_home_total", 4)
				wantMetric(t, reg, "ratelimitd_memory_keys", 0)
				time.Sleep(10 * time.Second)
				if got := store.used("k", l); got != 7 {
					t.Errorf("later it stands at %d, want 7", got)
				}
			})
		}
	})
}

// Only what still counts comes home.
func TestWhatIsFreeStaysAway(t *testing.T) {
	for _, row := range []struct {
		algorithm string
		away      time.Duration // after which the store is back
		want      int64         // of 8 hits by a limit of 10 in 10 s
	}{
		{"fixed_window", 5 * time.Second, 8}, {"fixed_window", 15 * time.Second, 0},
		{"sliding_window_log", 9 * time.Second, 8}, {"sliding_window_log", 11 * time.Second, 0},
		{"sliding_window_counter", 5 * time.Second, 8}, {"sliding_window_counter", 15 * time.Second, 4}, {"sliding_window_counter", 20 * time.Second, 0},
		{"token_bucket", 4 * time.Second, 4}, {"token_bucket", 8 * time.Second, 0},
		{"leaky_bucket", 4 * time.Second, 4}, {"leaky_bucket", 8 * time.Second, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			store := newSwitched(t)
			p, _ := withLocal(t, store, 1)
			store.fail(ErrUnavailable)
			time.Sleep(time.Until(time.Now().Truncate(10 * time.Second).Add(10 * time.Second))) // a window begins
			decideAll(p, localAsk("k", limitOf(t, row.algorithm, 10, 10*time.Second), 8))
			time.Sleep(row.away)
			store.fail(nil)
			time.Sleep(recovery - time.Millisecond) // a bucket gives up to one back meanwhile
			if hits, _ := store.forcedHits(); hits["k"] != row.want {
				t.Errorf("%s after %v: %d come home, want %d", row.algorithm, row.away, hits["k"], row.want)
			}
		})
	}
}

// A charge of which nobody knows whether it was made is not made again, and one
// that was surely not made is.
func TestCountsComeHomeAtMostOnce(t *testing.T) {
	for _, row := range []struct {
		reason error
		again  bool
	}{{ErrTimeout, false}, {ErrLost, false}, {ErrUnavailable, true}, {ErrFull, true}} {
		synctest.Test(t, func(t *testing.T) {
			store := newSwitched(t)
			p, reg := withLocal(t, store, 1)
			l := limitOf(t, "fixed_window", 10, aLongTime)
			store.fail(ErrUnavailable)
			decideAll(p, localAsk("k", l, 3))
			store.failFor(forcedOnly(row.reason))
			time.Sleep(recovery)
			_, times := store.forcedHits()
			store.fail(ErrUnavailable)
			decideAll(p, localAsk("k", l, 2))
			store.fail(nil)
			time.Sleep(recovery)
			if want := map[bool]int64{false: 2, true: 5}[row.again]; store.used("k", l) != want {
				t.Errorf("%v: the store stands at %d, want %d", row.reason, store.used("k", l), want)
			}
			if again := times["k"] > 1; again != row.again || times["k"] == 0 {
				t.Errorf("%v: charged %d times", row.reason, times["k"])
			}
			wantMetric(t, reg, "ratelimitd_local_hits_home_total", 5) // charged or lost
		})
	}
}

// slowForced is a store that takes its time for what is charged by force.
type slowForced struct {
	*switched
	takes time.Duration
	begun chan struct{}
}

func (s *slowForced) Decide(ctx context.Context, asks []algorithm.Ask, out []algorithm.Decision) {
	if asks[0].Mode == algorithm.Forced {
		s.begun <- struct{}{}
		time.Sleep(s.takes)
	}
	s.switched.Decide(ctx, asks, out)
}

// What is admitted locally while counts are on their way home comes home after
// them.
func TestDecisionsWhileCountsComeHome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowForced{newSwitched(t), 50 * time.Millisecond, make(chan struct{}, 10)}
		p, _ := withLocal(t, store, 1)
		l := limitOf(t, "token_bucket", 10, aLongTime)
		store.fail(ErrUnavailable)
		decideAll(p, localAsk("k", l, 6))
		store.fail(nil)
		<-store.begun
		store.failFor(func(a *algorithm.Ask) error {
			if a.Mode == algorithm.Forced {
				return nil
			}
			return ErrTimeout
		})
		if got := show(decideAll(p, localAsk("k", l, 3))); got != "ok:7" {
			t.Errorf("%s, want ok:7: a fresh state", got)
		}
		time.Sleep(recovery)
		if got := store.used("k", l); got != 6 {
			t.Errorf("the store stands at %d, want 6", got)
		}
		store.fail(nil)
		time.Sleep(recovery)
		if got := store.used("k", l); got != 9 {
			t.Errorf("the store stands at %d, want 9", got)
		}
	})
}

// Keys of a part of the store that is back come home, those of another wait.
func TestCountsComeHomePartByPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newSwitched(t)
		p, _ := withLocal(t, store, 1)
		l := limitOf(t, "fixed_window", 10, aLongTime)
		store.fail(ErrUnavailable)
		var asks []algorithm.Ask
		for i := range 300 {
			asks = append(asks, localAsk(fmt.Sprintf("{%d}k", i), l, 1))
		}
		decideAll(p, asks...)
		var probes atomic.Int64
		store.failFor(func(a *algorithm.Ask) error {
			if hashTag(string(a.Key)) == "7" {
				return nil
			}
			probes.Add(1)
			return ErrUnavailable
		})
		time.Sleep(5 * time.Minute)
		if hits, _ := store.forcedHits(); len(hits) != 1 || hits["{7}k"] != 1 {
			t.Errorf("home came %v, want {7}k", hits)
		}
		if got, most := probes.Load(), int64(5*60*12); got > most {
			t.Errorf("the store was asked %d times in vain, want %d at most", got, most)
		}
		store.fail(nil)
		time.Sleep(recovery)
		if hits, _ := store.forcedHits(); len(hits) != 300 {
			t.Errorf("home came %d keys, want 300", len(hits))
		}
	})
}

// The store is not flooded with what comes home.
func TestCountsComeHomeSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newSwitched(t)
		p, _ := withLocal(t, store, 1)
		l := limitOf(t, "fixed_window", 10, aLongTime)
		store.fail(ErrUnavailable)
		const keys = 20_000
		for i := range keys {
			decideAll(p, localAsk(fmt.Sprintf("{a}%d", i), l, 1))
		}
		store.fail(nil)
		began := time.Now()
		for {
			time.Sleep(10 * time.Millisecond)
			hits, times := store.forcedHits()
			if most := (int(time.Since(began)/homePause) + 1) * homeBatch; len(hits) > most {
				t.Fatalf("%d keys after %v, want %d at most", len(hits), time.Since(began), most)
			}
			if len(hits) == keys {
				for key, n := range times {
					if n != 1 {
						t.Errorf("%s was charged %d times", key, n)
					}
				}
				break
			}
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// Single time-outs add up, and come home as soon as the store decides.
func TestFlappingStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newSwitched(t)
		p, _ := withLocal(t, store, 1)
		l := limitOf(t, "fixed_window", 1000, aLongTime)
		local := 0
		for i := range 600 {
			if store.fail(nil); i%7 == 0 {
				store.failFor(func(a *algorithm.Ask) error {
					if a.Mode == algorithm.Forced { // of which one that comes just now would be lost
						return nil
					}
					return ErrTimeout
				})
			}
			if decideAll(p, localAsk("k", l, 1))[0].Degraded {
				local++
			}
			store.fail(nil)
			time.Sleep(5 * time.Millisecond)
		}
		time.Sleep(recovery)
		if got := store.used("k", l); got != 600 {
			t.Errorf("the store stands at %d, want 600, of which %d were local", got, local)
		}
		if _, times := store.forcedHits(); times["k"] < 10 || times["k"] > 40 {
			t.Errorf("counts came home %d times in three seconds", times["k"])
		}
	})
}

// A process that ends brings home what it can, and does not wait long for a
// store that is away.
func TestCountsComeHomeAtTheEnd(t *testing.T) {
	for _, back := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			store := newSwitched(t)
			p, _ := withLocal(t, store, 1)
			l := limitOf(t, "fixed_window", 1000, aLongTime)
			store.fail(ErrUnavailable)
			decideAll(p, localAsk("{a}k", l, 3), localAsk("{b}k", l, 4))
			time.Sleep(time.Minute)
			if back {
				store.fail(nil)
			}
			began := time.Now()
			p.local.Close()
			if took := time.Since(began); took > homeAtEnd {
				t.Errorf("it took %v", took)
			}
			if want := map[bool]int64{true: 4}[back]; store.used("{b}k", l) != want {
				t.Errorf("the store stands at %d, want %d", store.used("{b}k", l), want)
			}
		})
	}
}

// A store that is gone again while counts come home costs those that are on
// their way, and no more: the others wait until it is back.
func TestGoneAgainWhileCountsComeHome(t *testing.T) {
	for _, reason := range []error{ErrTimeout, ErrLost, ErrUnavailable} {
		synctest.Test(t, func(t *testing.T) {
			store := &slowForced{newSwitched(t), 5 * time.Millisecond, make(chan struct{}, 10_000)}
			p, _ := withLocal(t, store, 1)
			l := limitOf(t, "fixed_window", 10, aLongTime)
			store.fail(ErrUnavailable)
			const keys = 4000
			for i := range keys {
				decideAll(p, localAsk(fmt.Sprintf("{%d}%d", i%4, i), l, 1))
			}
			store.fail(nil)
			<-store.begun
			store.fail(reason)
			time.Sleep(time.Minute)
			_, times := store.forcedHits()
			if len(times) > homeBatch {
				t.Errorf("%v: %d keys were tried, want %d at most", reason, len(times), homeBatch)
			}
			store.fail(nil)
			time.Sleep(recovery)
			home := 0
			for i := range keys {
				home += int(store.used(fmt.Sprintf("{%d}%d", i%4, i), l))
			}
			if least := keys - homeBatch; home < least || home > keys || reason == ErrUnavailable && home != keys {
				t.Errorf("%v: %d of %d came home", reason, home, keys)
			}
		})
	}
}

// Nor does one whose process ends: all of it is tried once more.
func TestEndWhileCountsComeHome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowForced{newSwitched(t), 5 * time.Millisecond, make(chan struct{}, 10_000)}
		p, _ := withLocal(t, store, 1)
		l := limitOf(t, "fixed_window", 10, aLongTime)
		store.fail(ErrUnavailable)
		const keys = 4000
		for i := range keys {
			decideAll(p, localAsk(fmt.Sprintf("{a}%d", i), l, 1))
		}
		store.fail(nil)
		<-store.begun
		p.local.Close()
		if hits, _ := store.forcedHits(); len(hits) != keys {
			t.Errorf("%d of %d came home", len(hits), keys)
		}
	})
}
