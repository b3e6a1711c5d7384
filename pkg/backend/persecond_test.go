package backend

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ratelimitd/ratelimitd/internal/programtest"
	"github.com/ratelimitd/ratelimitd/internal/redistest"
	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// Each counter is in the Redis of its limit, and only a batch with limits of both
// asks both.
func TestPerSecondCountersLieApart(t *testing.T) {
	t.Parallel()
	fast, slow := redistest.Start(t, redistest.Options{}), redistest.Start(t, redistest.Options{})
	p, reg := openPerSecond(t, fast.URL(), slow.URL(), nil)
	await(t, "both are ready", func() bool { return p.Ready() == nil })
	scripts := func() [2]int { return [2]int{fast.Calls(t, "evalsha"), slow.Calls(t, "evalsha")} }
	for n, row := range []struct {
		windows []time.Duration
		calls   [2]int // of the Redis of limits per second, and of the other
	}{
		{[]time.Duration{time.Second}, [2]int{1, 0}},
		{[]time.Duration{time.Second, time.Second}, [2]int{1, 0}},
		{[]time.Duration{time.Minute, 2 * time.Second, 100 * time.Millisecond, aLongTime}, [2]int{0, 1}},
		{[]time.Duration{time.Second, aLongTime, time.Second}, [2]int{1, 1}},
		{nil, [2]int{0, 0}},
	} {
		var asks []algorithm.Ask
		for i, window := range row.windows {
			asks = append(asks, algorithm.Ask{Key: key(t, "a", fmt.Sprint(n, i)), Limit: limitOf(t, "token_bucket", 1_000_000, window), Hits: 900_000})
		}
		before := scripts()
		for i, d := range decideAll(p, asks...) {
			if d.Outcome != algorithm.Allowed {
				t.Errorf("%v: %v %v", row.windows[i], d.Outcome, d.Err)
			}
			second := row.windows[i] == time.Second
			if inFast, inSlow := fast.Do(t, "exists", asks[i].Key).(int64) == 1, slow.Do(t, "exists", asks[i].Key).(int64) == 1; inFast != second || inSlow == second {
				t.Errorf("a counter of %v: %v in the Redis of limits per second, %v in the other", row.windows[i], inFast, inSlow)
			}
		}
		if after := scripts(); [2]int{after[0] - before[0], after[1] - before[1]} != row.calls {
			t.Errorf("%v: from %v to %v calls, want %v more", row.windows, before, after, row.calls)
		}
	}
	wantMetric(t, reg, "ratelimitd_redis_up", 2)
	wantMetric(t, reg, "ratelimitd_redis_asks_total", 10)
}

// Each Redis is looked at by itself, and what is found says where.
func TestPerSecondInspectsBoth(t *testing.T) {
	t.Parallel()
	fast := redistest.Start(t, redistest.Options{Config: []string{"maxmemory 100mb", "maxmemory-policy allkeys-lru"}})
	slow := redistest.Start(t, redistest.Options{})
	var log programtest.Journal
	p, reg := openPerSecond(t, fast.URL(), slow.URL(), func(o *RedisOptions) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	await(t, "both are ready", func() bool { return p.Ready() == nil })
	if fast, slow := gauge(t, reg, "ratelimitd_redis_evicting", "per_second"), gauge(t, reg, "ratelimitd_redis_evicting", "other"); fast != 1 || slow != 0 {
		t.Errorf("%v and %v servers that drop counters, want 1 and 0", fast, slow)
	}
	if !has(&log, "redis drops counters", "limits=per_second") || has(&log, "redis drops counters", "limits=other") {
		t.Error(log.String())
	}
}

// By the reference's counting where what fits is left alone, over both Redis: see
// algorithm.OnlyOver.
func TestPerSecondOnlyOver(t *testing.T) {
	t.Parallel()
	s := openShape(t, "per second")
	wide, narrow, hidden := limitOf(t, "fixed_window", 20, aLongTime), limitOf(t, "fixed_window", 3, aLongTime), limitOf(t, "fixed_window", 2, aLongTime)
	for i, want := range []string{"ok:19 ok:2 ok:1", "ok:18 ok:1 ok:0", "ok:17 ok:0 over:0", "ok:17 over:0 over:0", "ok:17 over:0 over:0"} {
		asks := []algorithm.Ask{
			{Key: key(t, "a", "wide"), Limit: wide, Hits: 1, Counting: algorithm.OnlyOver},
			{Key: key(t, "a", "narrow"), Limit: narrow, Hits: 1, Counting: algorithm.OnlyOver},
			{Key: key(t, "a", "hidden"), Limit: hidden, Hits: 1, Counting: algorithm.OnlyOver, Shadow: true},
		}
		if got := show(s.decide(t, asks...)); got != want {
			t.Errorf("step %d: %s, want %s", i, got, want)
		}
	}
	// What does not fit goes on growing.
	got := s.decide(t, algorithm.Ask{Key: key(t, "a", "wide"), Limit: wide}, algorithm.Ask{Key: key(t, "a", "narrow"), Limit: narrow})
	if got[0].After != 3 || got[1].After != 5 {
		t.Errorf("in the end %d and %d, want 3 and 5", got[0].After, got[1].After)
	}
	wantMetric(t, s.reg, "ratelimitd_store_undone_total", 2)
}

// Requests with limits in both, of which one is short, in parallel.
func TestPerSecondSpreadRequestsGiveBack(t *testing.T) {
	t.Parallel()
	spreadRequestsGiveBack(t, openShape(t, "per second"))
}

// Windows of a second end while 64 callers ask for both: no second and no hour
// admits more than its limit, and what was denied by the one is not charged by the
// other.
func TestPerSecondInParallel(t *testing.T) {
	t.Parallel()
	fast, slow := redistest.Start(t, redistest.Options{}), redistest.Start(t, redistest.Options{})
	p, reg := openPerSecond(t, fast.URL(), slow.URL(), nil)
	await(t, "both are ready", func() bool { return p.Ready() == nil })
	asks := []algorithm.Ask{
		{Key: key(t, "a", "second"), Limit: limitOf(t, "fixed_window", 100, time.Second), Hits: 1},
		{Key: key(t, "a", "hour"), Limit: limitOf(t, "fixed_window", 250, aLongTime), Hits: 1},
	}
	var mu sync.Mutex
	admitted, total := map[time.Time]int{}, int64(0) // guarded by mu; by the end of the second
	full := func() bool { mu.Lock(); defer mu.Unlock(); return total >= 250 }
	var asking sync.WaitGroup
	for range 64 {
		asking.Go(func() {
			for !full() {
				out := decideAll(p, asks...)
				if out[0].Outcome == algorithm.Allowed && out[1].Outcome == algorithm.Allowed {
					mu.Lock()
					admitted[time.Now().Add(out[0].Reset).Round(time.Second)]++
					total++
					mu.Unlock()
				}
				time.Sleep(5 * time.Millisecond) // as many as ask for this would otherwise keep the machine
			}
		})
	}
	asking.Wait()
	for end, n := range admitted {
		if n > 100 {
			t.Errorf("%d admitted in the second before %v, want 100 at most", n, end)
		}
	}
	looking := asks[1]
	looking.Hits = 0
	if after := decideAll(p, looking)[0].After; total != 250 || after != 250 {
		t.Errorf("%d admitted, and the hour stands at %d; want 250", total, after)
	}
	wantMetric(t, reg, "ratelimitd_store_undo_failed_total", 0)
}

// One of both is killed, or hangs: its limits follow their failure policy, and
// those in the other one are decided; then it comes back.
func TestPerSecondOneIsAway(t *testing.T) {
	for _, hangs := range []bool{false, true} {
		for _, fastIsAway := range []bool{false, true} {
			t.Run(fmt.Sprintf("hangs=%v,per second=%v", hangs, fastIsAway), func(t *testing.T) {
				t.Parallel()
				oneIsAway(t, hangs, fastIsAway)
			})
		}
	}
}

func oneIsAway(t *testing.T, hangs, fastIsAway bool) {
	fast, slow := redistest.Start(t, redistest.Options{}), redistest.Start(t, redistest.Options{})
	var log programtest.Journal
	store, reg := openPerSecond(t, fast.URL(), slow.URL(), func(o *RedisOptions) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	p := WithFailurePolicy(store, FailureOptions{Timeout: 250 * time.Millisecond})
	perSecond, other := limitOf(t, "fixed_window", 1_000_000, time.Second), limitOf(t, "fixed_window", 1_000_000, aLongTime)
	lost, kept, server, name := other, perSecond, slow, "other"
	if fastIsAway {
		lost, kept, server, name = perSecond, other, fast, "per_second"
	}
	askOf := func(l *algorithm.Limit, group int32) algorithm.Ask {
		return algorithm.Ask{Key: key(t, "a", l.Window.String()), Limit: l, Hits: 1, Group: group, OnStoreError: algorithm.FailAllow}
	}
	both := func(group int32) []algorithm.Decision { return decideAll(p, askOf(lost, 0), askOf(kept, group)) }
	await(t, "both decide", func() bool { d := both(0); return !d[0].Degraded && !d[1].Degraded })

	if hangs {
		server.Pause()
	} else {
		server.Kill()
	}
	var asking sync.WaitGroup
	leftAlone := func() bool { return has(&log, "the circuit breaker is open", "limits="+name) }
	for range 8 {
		asking.Go(func() {
			for group := int32(0); group < 4 || !leftAlone() && group < 40; group++ {
				d := both(group % 2) // as one request, and as two
				if !d[0].Degraded || d[1].Degraded || d[1].Outcome != algorithm.Allowed {
					t.Errorf("lost: %+v, kept: %+v", d[0], d[1])
				}
			}
		})
	}
	asking.Wait()
	await(t, "it is noticed", func() bool { return store.Ready() != nil && gauge(t, reg, "ratelimitd_redis_up", name) == 0 })
	if err := store.Ready().Error(); strings.Contains(err, "of limits per second") != fastIsAway || strings.Contains(err, "of all other limits") == fastIsAway {
		t.Errorf("Ready: %v", err)
	}
	for _, kind := range []string{"the store does not answer", "the circuit breaker is open", "the store did not decide a request"} {
		if !has(&log, kind, "limits="+name) || has(&log, kind, "limits="+map[bool]string{true: "other", false: "per_second"}[fastIsAway]) {
			t.Errorf("%q is not said of %s alone:\n%s", kind, name, log.String())
		}
	}

	if hangs {
		server.Resume()
	} else {
		server.Restart(t)
	}
	await(t, "both decide again", func() bool { d := both(0); return !d[0].Degraded && !d[1].Degraded })
	await(t, "both are ready again", func() bool { return store.Ready() == nil })
}

// gauge is the value of a metric of one Redis.
func gauge(t *testing.T, reg *prometheus.Registry, name, limits string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && m.GetLabel()[0].GetValue() == limits {
				return m.GetGauge().GetValue()
			}
		}
	}
	t.Fatalf("no metric %s of %s", name, limits)
	return 0
}

// has reports whether a line of a log has all of the words.
func has(j *programtest.Journal, words ...string) bool {
	for line := range strings.Lines(j.String()) {
		all := true
		for _, word := range words {
			all = all && strings.Contains(line, word)
		}
		if all {
			return true
		}
	}
	return false
}

// What was admitted locally comes home to the part of the store that decides
// again, and only that is asked for: also where keys have one hash tag.
func TestPerSecondCountsComeHome(t *testing.T) {
	for _, fastIsBack := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			store := newSwitched(t)
			p, _ := withLocal(t, store, 1)
			time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second))) // a window begins
			perSecond, other := limitOf(t, "fixed_window", 10, time.Second), limitOf(t, "fixed_window", 10, time.Minute)
			store.fail(ErrUnavailable)
			decideAll(p, localAsk("{a}fast", perSecond, 2), localAsk("{a}slow", other, 3))
			var wrong atomic.Int64
			store.failFor(func(a *algorithm.Ask) error {
				if isPerSecond(a.Limit) == fastIsBack {
					return nil
				}
				if a.Mode == algorithm.Forced {
					wrong.Add(1)
				}
				return ErrUnavailable
			})
			time.Sleep(900 * time.Millisecond)
			hits, _ := store.forcedHits()
			if want := map[bool]int64{true: 2}[fastIsBack]; hits["{a}fast"] != want {
				t.Errorf("per second: %d came home, want %d", hits["{a}fast"], want)
			}
			if want := map[bool]int64{false: 3}[fastIsBack]; hits["{a}slow"] != want {
				t.Errorf("per minute: %d came home, want %d", hits["{a}slow"], want)
			}
			if wrong.Load() != 0 {
				t.Errorf("%d charges for what does not decide", wrong.Load())
			}
			store.fail(nil)
			time.Sleep(recovery)
			if hits, _ := store.forcedHits(); hits["{a}slow"] != 3 {
				t.Errorf("per minute: %d came home in the end, want 3", hits["{a}slow"])
			}
		})
	}
}

// Each Redis has a strain of its own; that of a request is its most strained.
func TestPerSecondStrain(t *testing.T) {
	p, _ := openPerSecond(t, "redis://127.0.0.1:1", "redis://127.0.0.1:1", nil)
	fast, slow := algorithm.Ask{Limit: limitOf(t, "fixed_window", 1, time.Second)}, algorithm.Ask{Limit: limitOf(t, "fixed_window", 1, time.Minute)}
	ctx := context.Background()
	if p.strainOf(ctx, &fast) != &p.perSecond.lane("").strain || p.strainOf(ctx, &slow) != &p.other.lane("").strain {
		t.Error("a limit is strained by the wrong Redis")
	}
	p.perSecond.strain.Store(30)
	p.other.strain.Store(4)
	if got := p.strained(); got != 34 {
		t.Errorf("strained %d, want 34", got)
	}
}

// Options that cannot work are an error that says of which limits.
func TestPerSecondOptions(t *testing.T) {
	good := RedisOptions{Server: RedisServer{Addresses: []string{"127.0.0.1:1"}}}
	reg := prometheus.NewRegistry()
	for _, row := range []struct {
		perSecond, other RedisOptions
		want             string
	}{
		{RedisOptions{}, good, "limits per second: redis: no address is given"},
		{good, RedisOptions{Registerer: reg}, "redis: no address is given"},
	} {
		if _, err := NewPerSecond(row.perSecond, row.other); err == nil || err.Error() != row.want {
			t.Errorf("%v, want %s", err, row.want)
		}
	}
	good.Registerer = reg // nothing is registered yet
	p, err := NewPerSecond(good, good)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}
