package backend

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/ratelimitd/ratelimitd/internal/programtest"
	"github.com/ratelimitd/ratelimitd/internal/redistest"
	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// Rows are calls, one after another, and the states that the breaker is in
// after each kind of them.
func TestBreaker(t *testing.T) {
	const ms = time.Millisecond
	refused := fmt.Errorf("%w: redis: OOM", ErrUnavailable)
	late := fmt.Errorf("%w: %w", ErrTimeout, context.DeadlineExceeded)
	left := fmt.Errorf("%w: %w", ErrTimeout, context.Canceled)
	type calls struct {
		times int
		took  time.Duration
		err   error
		want  gobreaker.State
	}
	const closed, half, open = gobreaker.StateClosed, gobreaker.StateHalfOpen, gobreaker.StateOpen
	for name, row := range map[string][]calls{
		"errors in a row":           {{7, ms, refused, closed}, {1, ms, refused, open}},
		"time-outs in a row":        {{7, 15 * ms, late, closed}, {1, 15 * ms, late, open}},
		"late answers in a row":     {{7, 16 * ms, nil, closed}, {1, 16 * ms, nil, open}},
		"one answer between errors": {{7, ms, refused, closed}, {1, ms, nil, closed}, {7, ms, refused, closed}},
		"one late call":             {{30, ms, nil, closed}, {1, 200 * ms, late, closed}, {1, 200 * ms, nil, closed}, {10, ms, nil, closed}},
		"half of the calls": {{5, ms, refused, closed}, {5, ms, nil, closed}, {5, ms, refused, closed}, {4, ms, nil, closed},
			{1, ms, refused, open}},
		"callers in a hurry": {{1000, ms, late, closed}, {1000, 4 * ms, late, closed}},
		"callers in a hurry and others": {{500, ms, late, closed}, {4, 15 * ms, late, closed}, {500, ms, late, closed}, {3, 15 * ms, late, closed},
			{1, 15 * ms, late, open}},
		"callers that leave":      {{1000, 20 * ms, left, closed}},
		"what is not its fault":   {{1000, ms, errNoVerdict, closed}},
		"few failures in a while": {{3, time.Second, late, closed}, {100, time.Second, late, closed}},
		"back":                    {{8, ms, refused, open}, {0, 249 * ms, nil, open}, {0, 2 * ms, nil, half}, {2, ms, nil, half}, {1, ms, nil, closed}},
		"not back yet":            {{8, ms, refused, open}, {0, 251 * ms, nil, half}, {2, ms, nil, half}, {1, ms, refused, open}, {0, 251 * ms, nil, half}},
		"a probe in a hurry":      {{8, ms, refused, open}, {0, 251 * ms, nil, half}, {9, ms, late, half}, {3, ms, nil, closed}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBreaker("h:1", 15*ms, newTransitions(nil, "redis"), slog.New(slog.DiscardHandler))
				for i, c := range row {
					if c.times == 0 {
						time.Sleep(c.took)
					}
					for range c.times {
						if err := b.do(func() error { time.Sleep(c.took); return c.err }); err != nil {
							t.Fatalf("step %d: refused: %v", i, err)
						}
					}
					if got := b.circuit.State(); got != c.want {
						t.Fatalf("step %d: %v, want %v", i, got, c.want)
					}
				}
			})
		})
	}
}

// A server that takes 12 ms as a rule is not given up for callers that wait
// less than twice that; one that takes 1 ms is.
func TestBreakerKnowsWhatIsUsual(t *testing.T) {
	for usual, want := range map[time.Duration]gobreaker.State{time.Millisecond: gobreaker.StateOpen, 12 * time.Millisecond: gobreaker.StateClosed} {
		synctest.Test(t, func(t *testing.T) {
			b := newBreaker("", 100*time.Millisecond, newTransitions(nil, "redis"), slog.New(slog.DiscardHandler))
			for range 100 {
				_ = b.do(func() error { time.Sleep(usual); return nil })
			}
			time.Sleep(tripWindow)
			for range tripAfter {
				_ = b.do(func() error { time.Sleep(17 * time.Millisecond); return context.DeadlineExceeded })
			}
			if got := b.circuit.State(); got != want {
				t.Errorf("usually %v: %v, want %v", usual, got, want)
			}
		})
	}
}

// While it is open calls are refused with the reason, and a few of those that
// come at the same time probe.
func TestBreakerRefusesAndProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log programtest.Journal
		b := newBreaker("10.0.0.7:6379", time.Second, newTransitions(nil, "redis"), slog.New(slog.NewTextHandler(&log, nil)))
		if b.refusal() != nil || b.isShut() {
			t.Error("a new breaker refuses")
		}
		fails := errors.New("connection reset")
		for range 3 { // it opens three times, and closes once
			for b.refusal() == nil {
				_ = b.do(func() error { return fails })
			}
			time.Sleep(openFor + time.Millisecond)
			_ = b.do(func() error { return fails })
			if err := b.refusal(); !errors.Is(err, ErrUnavailable) || !strings.HasSuffix(err.Error(), "the circuit breaker is open after: connection reset") {
				t.Errorf("refused with: %v", err)
			}
		}
		if !b.isShut() {
			t.Error("it does not count as shut")
		}
		time.Sleep(openFor + time.Millisecond)
		results := make(chan error)
		running := make(chan struct{}, 20)
		release := make(chan struct{})
		for range 20 {
			go func() { results <- b.do(func() error { running <- struct{}{}; <-release; return nil }) }()
		}
		synctest.Wait()
		if len(running) != probes {
			t.Errorf("%d probes at the same time, want %d", len(running), probes)
		}
		close(release)
		refused := 0
		for range 20 {
			if err := <-results; errors.Is(err, ErrUnavailable) {
				refused++
			}
		}
		if refused != 20-probes || b.refusal() != nil || b.isShut() {
			t.Errorf("%d refused, want %d; then %v", refused, 20-probes, b.refusal())
		}
		if text := log.String(); strings.Count(text, "\n") != 2 || !strings.Contains(text, "server=10.0.0.7:6379 reason=\"connection reset\"") ||
			!strings.Contains(text, "the circuit breaker is closed") {
			t.Errorf("the log has\n%s", text)
		}
	})
}

// What nobody asks any more, as a node that has left a Cluster, does not count
// as shut for ever.
func TestBreakerIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker("", time.Second, newTransitions(nil, "redis"), slog.New(slog.DiscardHandler))
		for range tripAfter {
			_ = b.do(func() error { return errors.New("gone") })
		}
		if !b.isShut() {
			t.Error("it does not count as shut")
		}
		time.Sleep(forgetAfter)
		if b.isShut() {
			t.Error("it still counts as shut")
		}
	})
}

// askKeys counts the keys that a store decides, and those that it leaves to
// their policy since a breaker is open.
func askKeys(d decider, l *algorithm.Limit, keys ...[]byte) (decided, shut int) {
	for _, k := range keys {
		var out [1]algorithm.Decision
		d.Decide(context.Background(), []algorithm.Ask{{Key: k, Limit: l, Hits: 1}}, out[:])
		switch {
		case out[0].Outcome != algorithm.Undecided:
			decided++
		case strings.Contains(out[0].Err.Error(), "circuit breaker"):
			shut++
		}
	}
	return decided, shut
}

// Redis hangs: after a few calls nobody waits for it any more. Soon after it is
// back, all is as before, and only the calls that were sent have counted.
func TestBreakerWhenRedisHangs(t *testing.T) {
	for _, shape := range []string{"redis", "sentinel"} {
		t.Run(shape, func(t *testing.T) {
			var s *testStore
			var server *redistest.Server
			switch shape {
			case "redis":
				server = redistest.Start(t, redistest.Options{})
				s = breakerStore(t, server.URL())
			default:
				sentinel := redistest.StartSentinel(t, redistest.Options{})
				server = sentinel.Master(t)
				s = breakerStore(t, sentinel.URL())
			}
			l := limitOf(t, "fixed_window", 1_000_000, aLongTime)
			k := key(t, "a", "key")
			p := WithFailurePolicy(s, FailureOptions{Timeout: 100 * time.Millisecond})
			await(t, "the store decides", func() bool { n, _ := askKeys(p, l, k); return n == 1 })
			before := ask1(t, s, string(k), l, 0).After
			server.Pause()
			sent := 0
			await(t, "the breaker opens", func() bool { sent++; _, shut := askKeys(p, l, k); return shut == 1 })
			wantMetric(t, s.reg, "ratelimitd_redis_breakers_open", 1)
			began := time.Now()
			for time.Since(began) < 2*openFor {
				_, shut := askKeys(p, l, k)
				sent += 1 - shut
			}
			if most := tripAfter + 3 + 2*probes; sent > most { // three: before it trips by time-outs some may be too short to count
				t.Errorf("%d asks were sent to a Redis that hangs, want %d at most", sent, most)
			}
			server.Resume()
			began = time.Now()
			await(t, "the store decides", func() bool { n, _ := askKeys(p, l, k); return n == 1 })
			if took := time.Since(began); took > backInTime {
				t.Errorf("normal after %v", took)
			}
			await(t, "the breaker closes", func() bool { askKeys(p, l, k); return s.decider.(*Redis).breakersShut() == 0 })
			at := ask1(t, s, string(k), l, 0).After
			if n, _ := askKeys(p, l, k, k, k); n != 3 {
				t.Errorf("%d of 3 are decided", n)
			}
			if after := ask1(t, s, string(k), l, 0).After; after != at+3 || before < 1 {
				t.Errorf("key stands at %d, then %d", at, after)
			}
		})
	}
}

// breakerStore opens a store whose breakers know a budget of 100 ms.
func breakerStore(t *testing.T, url string) *testStore {
	r, reg := openRedis(t, url, func(o *RedisOptions) { o.Budget = 100 * time.Millisecond })
	awaitReady(t, r)
	return &testStore{decider: r, reg: reg}
}

// In a Cluster the nodes that are well know nothing of the one that is not.
func TestBreakerOfOneNode(t *testing.T) {
	c := redistest.StartCluster(t, redistest.Options{})
	s := breakerStore(t, c.URL())
	p := WithFailurePolicy(s, FailureOptions{Timeout: 100 * time.Millisecond})
	l := limitOf(t, "fixed_window", 1_000_000, aLongTime)
	var well, ill [][]byte
	for i := range 30 {
		k := key(t, fmt.Sprint(i), "k")
		if c.Owner(t, int(slotOf(k))) == 0 {
			ill = append(ill, k)
		} else {
			well = append(well, k)
		}
	}
	c.Masters[0].Pause()
	await(t, "the breaker opens", func() bool { _, shut := askKeys(p, l, ill...); return shut > 0 })
	for range 20 {
		if n, shut := askKeys(p, l, well...); shut != 0 || n == 0 {
			t.Errorf("%d of %d are decided, %d refused by a breaker", n, len(well), shut)
		}
		askKeys(p, l, ill...)
	}
	// Of a batch, too, only the ill node's keys are left.
	var asks []algorithm.Ask
	for i, k := range [][]byte{well[0], ill[0], well[1], ill[1]} {
		asks = append(asks, algorithm.Ask{Key: k, Limit: l, Hits: 1, Group: int32(i)})
	}
	await(t, "a batch is decided in part", func() bool {
		out := make([]algorithm.Decision, len(asks))
		p.Decide(context.Background(), asks, out)
		return out[0].Outcome == algorithm.Allowed && out[2].Outcome == algorithm.Allowed &&
			errors.Is(out[1].Err, ErrUnavailable) && errors.Is(out[3].Err, ErrUnavailable)
	})
	wantMetric(t, s.reg, "ratelimitd_redis_breakers_open", 1)
	c.Masters[0].Resume()
	began := time.Now()
	await(t, "all are decided", func() bool { n, _ := askKeys(p, l, ill...); return n == len(ill) })
	if took := time.Since(began); took > backInTime {
		t.Errorf("normal after %v", took)
	}
	wantMetric(t, s.reg, "ratelimitd_redis_breakers_open", 0)
}

// Another master takes the place of one that hangs and whose breaker is open:
// it is asked soon after, whatever the old one does.
func TestBreakerOfAReplacedMaster(t *testing.T) {
	s := redistest.StartSentinel(t, redistest.Options{})
	store := breakerStore(t, s.URL())
	p := WithFailurePolicy(store, FailureOptions{Timeout: 100 * time.Millisecond})
	l := limitOf(t, "fixed_window", 1_000_000, aLongTime)
	k := key(t, "a", "k")
	await(t, "it is decided", func() bool { n, _ := askKeys(p, l, k); return n == 1 })
	old := s.Master(t)
	old.Do(t, "wait", 1, 1000)
	old.Pause()
	await(t, "the breaker opens", func() bool { _, shut := askKeys(p, l, k); return shut == 1 })
	s.AwaitFailover(t, old)
	wantDecidedSoon(t, p, l, k)
}

// The slots of a node that hangs come to another: its breaker does not keep them
// from being found there.
func TestBreakerOfANodeThatLostItsSlots(t *testing.T) {
	c := redistest.StartCluster(t, redistest.Options{})
	r, reg := openRedis(t, c.URL(), func(o *RedisOptions) { o.Budget, o.ReadTimeout = 100*time.Millisecond, DefaultReadTimeout })
	p := WithFailurePolicy(r, FailureOptions{Timeout: 100 * time.Millisecond})
	l := limitOf(t, "fixed_window", 1_000_000, aLongTime)
	var k []byte
	for i := 0; k == nil || c.Owner(t, int(slotOf(k))) != 0; i++ {
		k = key(t, fmt.Sprint(i), "k")
	}
	await(t, "it is decided", func() bool { n, _ := askKeys(p, l, k); return n == 1 })
	c.Masters[0].Pause()
	await(t, "the breaker opens", func() bool { _, shut := askKeys(p, l, k); return shut == 1 })
	heir := c.Masters[1].Do(t, "cluster", "myid")
	c.Masters[1].Do(t, "cluster", "bumpepoch")
	for _, node := range c.Masters[1:] {
		node.Do(t, "cluster", "setslot", slotOf(k), "node", heir)
	}
	wantDecidedSoon(t, p, l, k)
	if got := c.Masters[1].Do(t, "exists", k); got != int64(1) {
		t.Error("the heir does not have the key")
	}
	wantMetric(t, reg, "ratelimitd_redis_breakers_open", 1) // that of the node that hangs
}

// wantDecidedSoon asks until a key is decided, which must come in time.
func wantDecidedSoon(t *testing.T, d decider, l *algorithm.Limit, k []byte) {
	t.Helper()
	began := time.Now()
	await(t, "it is decided", func() bool { n, _ := askKeys(d, l, k); return n == 1 })
	if took := time.Since(began); took > backInTime {
		t.Errorf("decided after %v", took)
	}
}

// A Cluster of which no node has answered yet is known to nobody: that, too, is
// not waited for by each request.
func TestBreakerOfAClusterNeverSeen(t *testing.T) {
	c := redistest.StartCluster(t, redistest.Options{})
	for _, node := range c.Masters {
		node.Pause()
	}
	r, reg := openRedis(t, c.URL(), func(o *RedisOptions) { o.Budget = 100 * time.Millisecond })
	p := WithFailurePolicy(r, FailureOptions{Timeout: 100 * time.Millisecond})
	l := limitOf(t, "fixed_window", 1_000_000, aLongTime)
	k := key(t, "a", "k")
	await(t, "the breaker opens", func() bool { _, shut := askKeys(p, l, k); return shut == 1 })
	for _, node := range c.Masters {
		node.Resume()
	}
	began := time.Now()
	await(t, "it is decided", func() bool { n, _ := askKeys(p, l, k); return n == 1 })
	if took := time.Since(began); took > backInTime {
		t.Errorf("normal after %v", took)
	}
	await(t, "the breaker closes", func() bool { askKeys(p, l, k); return r.breakersShut() == 0 })
	wantMetric(t, reg, "ratelimitd_redis_breakers_open", 0)
}

// Keys that hold something else, and callers that wait a millisecond for a
// Redis that is well, open nothing.
func TestBreakerStaysClosedForBadKeysAndHurry(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	s := breakerStore(t, server.URL())
	l := limitOf(t, "fixed_window", 1_000_000, aLongTime)
	server.Do(t, "hset", "bad", "f", "v")
	for range 5 * tripAfter {
		if d := ask1(t, s, "bad", l, 1); !errors.Is(d.Err, algorithm.ErrCorrupt) {
			t.Fatalf("a bad key: %v %v", d.Outcome, d.Err)
		}
	}
	server.Pause()
	for range 5 * tripAfter {
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		var out [1]algorithm.Decision
		s.Decide(ctx, []algorithm.Ask{{Key: []byte("good"), Limit: l, Hits: 1}}, out[:])
		cancel()
		if !errors.Is(out[0].Err, ErrTimeout) {
			t.Fatalf("in a hurry: %v %v", out[0].Outcome, out[0].Err)
		}
	}
	server.Resume()
	if d := ask1(t, s, "good", l, 1); d.Outcome != algorithm.Allowed {
		t.Errorf("a good key: %v %v", d.Outcome, d.Err)
	}
	wantMetric(t, s.reg, "ratelimitd_redis_breaker_transitions_total", 0)
}
