package backend

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// switched is a store in memory that can be made to fail. It is safe for
// concurrent use.
type switched struct {
	*Memory
	fails atomic.Pointer[func(*algorithm.Ask) error] // nil: it decides everything

	mu     sync.Mutex      // protects what follows
	forced []algorithm.Ask // that were asked, failing or not; keys are copies
}

func newSwitched(t *testing.T) *switched {
	m := NewMemory(MemoryOptions{})
	t.Cleanup(m.Close)
	return &switched{Memory: m}
}

// fail makes the store leave every ask undecided for a reason; nil ends that.
func (s *switched) fail(reason error) {
	if reason == nil {
		s.fails.Store(nil)
		return
	}
	s.failFor(func(*algorithm.Ask) error { return reason })
}

// failFor makes the store leave asks undecided for which f returns a reason.
func (s *switched) failFor(f func(*algorithm.Ask) error) { s.fails.Store(&f) }

func (s *switched) Decide(ctx context.Context, asks []algorithm.Ask, out []algorithm.Decision) {
	fails := s.fails.Load()
	for i := range asks {
		out[i] = algorithm.Decision{}
		if asks[i].Mode == algorithm.Forced {
			s.mu.Lock()
			s.forced = append(s.forced, asks[i])
			s.forced[len(s.forced)-1].Key = append([]byte(nil), asks[i].Key...)
			s.mu.Unlock()
		}
		if fails != nil {
			out[i].Err = (*fails)(&asks[i])
		}
		if out[i].Err == nil { // each by itself, as slots of a Cluster do
			s.Memory.Decide(ctx, asks[i:i+1], out[i:i+1])
		}
	}
}

// withLocal stacks a failure policy that decides locally, as one of so many
// replicas, on a store.
func withLocal(t *testing.T, store decider, replicas int) (*FailurePolicy, *prometheus.Registry) {
	reg := prometheus.NewRegistry()
	l := NewLocal(store, LocalOptions{Replicas: func() int { return replicas }, Registerer: reg})
	t.Cleanup(l.Close)
	return WithFailurePolicy(store, FailureOptions{Local: l, Registerer: reg}), reg
}

// localAsk asks for hits by a limit that is decided locally when need be.
func localAsk(key string, l *algorithm.Limit, hits int64) algorithm.Ask {
	return algorithm.Ask{Key: []byte(key), Limit: l, Hits: hits, OnStoreError: algorithm.FailLocal}
}

// decideAll decides asks in one call.
func decideAll(d decider, asks ...algorithm.Ask) []algorithm.Decision {
	out := make([]algorithm.Decision, len(asks))
	d.Decide(context.Background(), asks, out)
	return out
}

// What a replica admits by itself is its share, and its answers are those of the
// algorithm.
func TestLocalShare(t *testing.T) {
	forEachAlgorithm(t, func(t *testing.T, name string) {
		for _, row := range []struct {
			limit    uint64
			replicas int
			want     string // of asks for 1, one after another
		}{
			{10, 3, "ok:2 ok:1 ok:0 over:0 over:0"},
			{4, 1, "ok:3 ok:2 ok:1 ok:0 over:0"},
			{2, 3, "ok:0 over:0"},
			{0, 3, "over:0"},
		} {
			store := newSwitched(t)
			store.fail(ErrUnavailable)
			p, reg := withLocal(t, store, row.replicas)
			l := limitOf(t, name, row.limit, aLongTime)
			var all []algorithm.Decision
			for range strings.FieldsSeq(row.want) {
				d := decideAll(p, localAsk("k", l, 1))[0]
				if !d.Degraded || d.Err != nil {
					t.Errorf("degraded %v, reason %v; want true and none", d.Degraded, d.Err)
				}
				all = append(all, d)
			}
			if got := show(all); got != row.want {
				t.Errorf("%d by %d: %s, want %s", row.limit, row.replicas, got, row.want)
			}
			wantMetric(t, reg, "ratelimitd_store_degraded_total", float64(len(all)))
			if used := store.used("k", l); used != 0 {
				t.Errorf("the store was charged %d", used)
			}
		}
	})
}

// A cost above the share is denied, but not for ever if the limit holds it.
func TestLocalNever(t *testing.T) {
	forEachAlgorithm(t, func(t *testing.T, name string) {
		store := newSwitched(t)
		store.fail(ErrUnavailable)
		p, _ := withLocal(t, store, 3)
		l := limitOf(t, name, 10, time.Hour)
		for _, row := range []struct {
			hits  int64
			never bool
		}{{4, false}, {10, false}, {11, true}} {
			d := decideAll(p, localAsk("k", l, row.hits))[0]
			if d.Outcome != algorithm.Denied || d.Never != row.never || d.RetryAfter != time.Hour {
				t.Errorf("%d hits: %v, never %v, retry after %v", row.hits, d.Outcome, d.Never, d.RetryAfter)
			}
		}
	})
}

// The asks of a request that are decided here are charged together or not at
// all, and not when its other asks deny it.
func TestLocalRequests(t *testing.T) {
	l, one := limitOf(t, "fixed_window", 10, aLongTime), limitOf(t, "fixed_window", 1, aLongTime)
	local := func(key string, l *algorithm.Limit) algorithm.Ask { return localAsk(key, l, 1) }
	by := func(policy algorithm.FailurePolicy) algorithm.Ask {
		return algorithm.Ask{Key: []byte("other"), Limit: l, Hits: 1, OnStoreError: policy}
	}
	stored := func(l *algorithm.Limit) algorithm.Ask { return localAsk("stored", l, 1) } // the store decides it
	quota := func(a algorithm.Ask) algorithm.Ask { a.Quota = true; return a }
	shadow := func(a algorithm.Ask) algorithm.Ask { a.Shadow = true; return a }
	zero := limitOf(t, "fixed_window", 0, aLongTime)
	for _, row := range []struct {
		name string
		asks []algorithm.Ask
		want string // what they come to
		used int64  // of key a, afterwards
	}{
		{"two", []algorithm.Ask{local("a", l), local("b", one)}, "allowed allowed", 1},
		{"one of two is over", []algorithm.Ask{local("a", l), local("b", zero)}, "allowed denied", 0},
		{"deny goes before", []algorithm.Ask{local("a", l), by(algorithm.FailDeny)}, "allowed denied", 0},
		{"error goes before", []algorithm.Ask{by(algorithm.FailError), local("a", l)}, "undecided allowed", 0},
		{"allow does not", []algorithm.Ask{local("a", l), by(algorithm.FailAllow)}, "allowed allowed", 1},
		{"a shadow has no say", []algorithm.Ask{local("a", l), shadow(by(algorithm.FailDeny))}, "allowed denied", 1},
		{"a shadow here", []algorithm.Ask{shadow(local("a", l)), by(algorithm.FailDeny)}, "allowed denied", 1},
		{"the store allowed", []algorithm.Ask{stored(l), local("a", l)}, "allowed allowed", 1},
		{"the store denied", []algorithm.Ask{stored(zero), local("a", l)}, "denied allowed", 0},
		{"one quota of two", []algorithm.Ask{quota(local("a", l)), quota(local("b", zero))}, "allowed denied", 1},
		{"a quota of the store is enough", []algorithm.Ask{quota(stored(l)), quota(local("b", zero)), local("a", l)}, "allowed denied allowed", 1},
		{"a quota of the store is not", []algorithm.Ask{quota(stored(zero)), quota(local("b", zero)), local("a", l)}, "denied denied allowed", 0},
		{"the quota here is", []algorithm.Ask{quota(stored(zero)), quota(local("a", l))}, "denied allowed", 1},
		{"the only quota is the store's", []algorithm.Ask{quota(stored(zero)), local("a", l)}, "denied allowed", 0},
	} {
		store := newSwitched(t)
		store.failFor(func(a *algorithm.Ask) error {
			if string(a.Key) == "stored" {
				return nil
			}
			return ErrUnavailable
		})
		p, _ := withLocal(t, store, 1)
		var got []string
		for _, d := range decideAll(p, row.asks...) {
			got = append(got, d.Outcome.String())
		}
		if text := strings.Join(got, " "); text != row.want {
			t.Errorf("%s: %s, want %s", row.name, text, row.want)
		}
		if used := decideAll(p, localAsk("a", l, 0))[0].After; used != row.used {
			t.Errorf("%s: a stands at %d, want %d", row.name, used, row.used)
		}
	}
}

// What nobody waits for is not counted, what is late is, and each request of a
// batch is decided by itself.
func TestLocalBatch(t *testing.T) {
	store := newSwitched(t)
	store.fail(ErrUnavailable)
	p, _ := withLocal(t, store, 2)
	l := limitOf(t, "token_bucket", 4, aLongTime)
	asks := []algorithm.Ask{localAsk("k", l, 1), localAsk("k", l, 1), localAsk("k", l, 1), localAsk("k", l, 1)}
	asks[1].Gone = new(atomic.Bool)
	asks[1].Gone.Store(true)
	asks[2].Gone, asks[2].Deadline = new(atomic.Bool), time.Now().Add(-time.Millisecond)
	for i := range asks {
		asks[i].Group = int32(i)
	}
	out := decideAll(p, asks...)
	if out[1].Outcome != algorithm.Undecided || !errors.Is(out[1].Err, ErrUnavailable) {
		t.Errorf("gone: %v, %v", out[1].Outcome, out[1].Err)
	}
	if got, want := show([]algorithm.Decision{out[0], out[2], out[3]}), "ok:1 ok:0 over:0"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
