package backend

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// queuedStore allows all, and has two queues: one for keys that begin with a, and
// one for the others.
type queuedStore struct {
	a, b  strain
	asked []string
}

func (s *queuedStore) Decide(_ context.Context, asks []algorithm.Ask, out []algorithm.Decision) {
	for i := range asks {
		s.asked = append(s.asked, string(asks[i].Key))
		out[i] = algorithm.Decision{Outcome: algorithm.Allowed, After: asks[i].Hits}
	}
}

func (s *queuedStore) strained() int64 { return s.a.now.Load() + s.b.now.Load() }

func (s *queuedStore) strainOf(_ context.Context, ask *algorithm.Ask) *strain {
	if ask.Key[0] == 'a' {
		return &s.a
	}
	return &s.b
}

// openShedding stacks shedding on a store; its process is never late by itself.
func openShedding(t testing.TB, next decider) (*Shedding, *prometheus.Registry) {
	t.Helper()
	reg := prometheus.NewRegistry()
	s := WithShedding(next, SheddingOptions{Budget: time.Hour, Registerer: reg})
	t.Cleanup(s.Close)
	return s, reg
}

// ofEveryPriority are requests of one ask each, but for the last two.
func ofEveryPriority(l *algorithm.Limit) []algorithm.Ask {
	ask := func(key string, group int32, p algorithm.Priority, mode algorithm.Mode) algorithm.Ask {
		return algorithm.Ask{Key: []byte(key), Limit: l, Hits: 1, Group: group, Priority: p, Mode: mode}
	}
	const critical, ordinary, sheddable = algorithm.PriorityCritical, algorithm.PriorityDefault, algorithm.PrioritySheddable
	return []algorithm.Ask{
		ask("a sheddable", 0, sheddable, algorithm.Charge),
		ask("a default", 1, ordinary, algorithm.Charge),
		ask("a critical", 2, critical, algorithm.Charge),
		ask("a back", 3, sheddable, algorithm.GiveBack),
		ask("b sheddable", 4, sheddable, algorithm.Charge),
		ask("b of a default one", 5, sheddable, algorithm.Charge),
		ask("a of a default one", 5, ordinary, algorithm.Charge),
		ask("b of a critical one", 6, critical, algorithm.Charge),
		ask("a of a critical one", 6, sheddable, algorithm.Charge),
	}
}

// Sheddable requests are denied first, default ones are then left undecided,
// critical ones last; in queues that are not strained nothing is. A request of
// several limits goes whole.
func TestSheddingByPriority(t *testing.T) {
	l := limitOf(t, "fixed_window", 5, time.Hour)
	for _, row := range []struct {
		a, b, lag int64
		want      string
	}{
		{0, 0, 0, "+ + + + + ++ ++"},
		{499, 0, 0, "+ + + + + ++ ++"},
		{500, 0, 0, "- + + + + ++ ++"},
		{500, 500, 0, "- + + + - ++ ++"},
		{750, 0, 0, "- ? + + + ?? ++"},
		{0, 750, 0, "+ + + + - ?? ++"},
		{1000, 0, 0, "- ? ? ? + ?? ??"},
		{1000, 1000, 0, "- ? ? ? - ?? ??"},
		{250, 0, 250, "- + + + + ++ ++"},
		{0, 0, 1000, "- ? ? ? - ?? ??"},
	} {
		store := &queuedStore{}
		s, reg := openShedding(t, store)
		store.a.set(row.a)
		store.b.set(row.b)
		s.lags(row.lag)
		asks := ofEveryPriority(l)
		out := make([]algorithm.Decision, len(asks))
		s.Decide(context.Background(), asks, out)
		var got strings.Builder
		shed, asked := 0.0, ""
		for i := range out {
			if i > 0 && asks[i].Group != asks[i-1].Group {
				got.WriteByte(' ')
			}
			if out[i].Outcome != algorithm.Allowed {
				if !errors.Is(out[i].Err, ErrUnavailable) || !errors.Is(out[i].Err, errOverloaded) {
					t.Errorf("%+v: reason %v", row, out[i].Err)
				}
				if i == 0 || asks[i].Group != asks[i-1].Group {
					shed++
				}
			} else {
				asked += fmt.Sprint(string(asks[i].Key), ", ")
			}
			got.WriteByte("?+-"[out[i].Outcome])
			if d := out[i]; d.Outcome == algorithm.Denied && (!d.Degraded || d.RetryAfter != time.Second || d.Remaining != 0) {
				t.Errorf("%+v: denied with %+v", row, d)
			}
		}
		if got.String() != row.want {
			t.Errorf("strains %d and %d, lag %d:\n got %s\nwant %s", row.a, row.b, row.lag, got.String(), row.want)
		}
		if text := strings.Join(append(store.asked, ""), ", "); text != asked {
			t.Errorf("%+v: asked for %s, want %s", row, text, asked)
		}
		wantMetric(t, reg, "ratelimitd_shed_total", shed)
	}
}

// In front of a store that never waits, sheddable requests are left out for the
// lag of the process. It still needs no deadline.
func TestSheddingInFrontOfMemory(t *testing.T) {
	m := NewMemory(MemoryOptions{})
	t.Cleanup(m.Close)
	s, _ := openShedding(t, m)
	if !s.neverWaits() || !WithFailurePolicy(s, FailureOptions{}).instant {
		t.Error("a store in memory is thought to wait")
	}
	if waiting, _ := openShedding(t, &queuedStore{}); waiting.neverWaits() {
		t.Error("a store with queues is thought not to wait")
	}
	l := limitOf(t, "fixed_window", 5, aLongTime)
	ask := algorithm.Ask{Key: []byte("a"), Limit: l, Hits: 1, Priority: algorithm.PrioritySheddable}
	other := algorithm.Ask{Key: []byte("b"), Limit: l, Hits: 1, Group: 1}
	for i, row := range []struct {
		lag  int64
		want algorithm.Outcome
	}{{0, algorithm.Allowed}, {5000, algorithm.Denied}, {400, algorithm.Denied}, {100, algorithm.Allowed}, {400, algorithm.Allowed}} {
		s.lags(row.lag)
		var out [2]algorithm.Decision
		s.Decide(context.Background(), []algorithm.Ask{ask, other}, out[:])
		if out[0].Outcome != row.want || out[1].Outcome != algorithm.Allowed {
			t.Errorf("row %d: %v and %v, want %v and allowed", i, out[0].Outcome, out[1].Outcome, row.want)
		}
	}
	if got := ask1(t, m, "a", l, 0).After; got != 3 {
		t.Errorf("%d are charged, want 3", got)
	}
}

// quiet is a store with queues that does nothing.
type quiet struct{ *queuedStore }

func (quiet) Decide(context.Context, []algorithm.Ask, []algorithm.Decision) {}

func BenchmarkShedding(b *testing.B) {
	l := limitOf(b, "fixed_window", 5, time.Hour)
	for _, strained := range []int64{0, 400, 800} {
		b.Run(fmt.Sprintf("strain=%d", strained), func(b *testing.B) {
			store := &queuedStore{}
			s, _ := openShedding(b, quiet{store})
			store.a.set(strained)
			asks := ofEveryPriority(l)
			out := make([]algorithm.Decision, len(asks))
			for b.Loop() {
				s.Decide(context.Background(), asks, out)
			}
		})
	}
}
