package backend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// limitOf returns a limit of the named algorithm.
func limitOf(t testing.TB, name string, requests uint64, window time.Duration) *algorithm.Limit {
	t.Helper()
	l, err := algorithm.NewLimit(algorithm.Spec{Algorithm: name, Requests: requests, Window: window})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// ask1 decides one ask.
func ask1(t testing.TB, d decider, key string, l *algorithm.Limit, hits int64) algorithm.Decision {
	t.Helper()
	var out [1]algorithm.Decision
	d.Decide(t.Context(), []algorithm.Ask{{Key: []byte(key), Limit: l, Hits: hits}}, out[:])
	return out[0]
}

func TestMemoryDropsTheNearestToNeverSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		var log bytes.Buffer
		m := NewMemory(MemoryOptions{MaxKeys: 3, Registerer: reg, Log: slog.New(slog.NewTextHandler(&log, nil))})
		defer m.Close()
		day, hour := limitOf(t, "fixed_window", 10, 24*time.Hour), limitOf(t, "fixed_window", 10, time.Hour)
		full := limitOf(t, "fixed_window", 1, time.Minute)

		steps := []struct {
			key   string
			limit *algorithm.Limit
			want  string // outcome, then the keys that are held
		}{
			{"denying", full, "allowed denying"}, // its only hit is taken: it denies from now on
			{"hour", hour, "allowed denying hour"},
			{"day", day, "allowed day denying hour"},
			{"new", day, "allowed day denying new"}, // hour was nearest to never seen of those that let through
			{"denying", full, "denied day denying new"},
			{"newer", full, "allowed denying new newer"}, // day and new are alike; one of them went
		}
		for i, step := range steps {
			d := ask1(t, m, step.key, step.limit, 1)
			if step.key == "newer" {
				if got := d.Outcome.String(); got != "allowed" || m.Keys() != 3 {
					t.Fatalf("step %d: %s, %d keys", i, got, m.Keys())
				}
				continue
			}
			if got := d.Outcome.String() + " " + strings.Join(heldKeys(m), " "); got != step.want {
				t.Errorf("step %d, ask %s: %s, want %s", i, step.key, got, step.want)
			}
		}
		if got := strings.Count(log.String(), "dropped counters"); got != 1 {
			t.Errorf("%d log lines, want 1 in ten seconds:\n%s", got, &log)
		}
		wantMetric(t, reg, "ratelimitd_memory_evicted_live_total", 2)
		wantMetric(t, reg, "ratelimitd_memory_keys", 3)
	})
}

func heldKeys(m *Memory) []string {
	var keys []string
	for _, s := range m.shards {
		s.mu.Lock()
		for _, e := range s.entries.entries {
			keys = append(keys, e.key)
		}
		s.mu.Unlock()
	}
	slices.Sort(keys)
	return keys
}

func TestMemoryFullOfDenyingKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		m := NewMemory(MemoryOptions{MaxKeys: 100, Registerer: reg})
		defer m.Close()
		full, other := limitOf(t, "token_bucket", 1, time.Minute), limitOf(t, "token_bucket", 5, time.Minute)
		for i := range 100 {
			if d := ask1(t, m, fmt.Sprint(i), full, 1); d.Outcome != algorithm.Allowed {
				t.Fatalf("key %d: %v %v", i, d.Outcome, d.Err)
			}
		}
		d := ask1(t, m, "new", other, 1)
		if d.Outcome != algorithm.Undecided || !errors.Is(d.Err, ErrFull) {
			t.Errorf("a new key: %v, %v; want undecided, %v", d.Outcome, d.Err, ErrFull)
		}
		if d := ask1(t, m, "new", other, 0); d.Outcome != algorithm.Allowed || d.Remaining != 5 {
			t.Errorf("a look, which needs no room: %v, remaining %d, %v", d.Outcome, d.Remaining, d.Err)
		}
		wantMetric(t, reg, "ratelimitd_memory_evicted_live_total", 0)
		for i := range 100 {
			if d := ask1(t, m, fmt.Sprint(i), full, 1); d.Outcome != algorithm.Denied {
				t.Errorf("key %d: %v, want denied", i, d.Outcome)
			}
		}
		time.Sleep(time.Minute) // all have refilled
		if d := ask1(t, m, "new", other, 1); d.Outcome != algorithm.Allowed {
			t.Errorf("a new key, later: %v %v", d.Outcome, d.Err)
		}
		wantMetric(t, reg, "ratelimitd_memory_evicted_live_total", 0)
	})
}

// A key that denied and does not any more is dropped like any other.
func TestMemoryDropsWhatNoLongerDenies(t *testing.T) {
	for _, a := range algorithm.All {
		t.Run(a.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := NewMemory(MemoryOptions{MaxKeys: 1})
				defer m.Close()
				l := limitOf(t, a.Name, 10, time.Minute)
				ask1(t, m, "old", l, 10)
				d := ask1(t, m, "old", l, 1)
				if d.Outcome != algorithm.Denied {
					t.Fatalf("old: %v, want denied", d.Outcome)
				}
				time.Sleep(d.RetryAfter - time.Microsecond)
				if d := ask1(t, m, "new", l, 1); d.Outcome != algorithm.Undecided {
					t.Errorf("while old denies: %v, want undecided", d.Outcome)
				}
				time.Sleep(time.Microsecond)
				if d := ask1(t, m, "new", l, 1); d.Outcome != algorithm.Allowed {
					t.Errorf("when old denies no longer: %v %v, want allowed", d.Outcome, d.Err)
				}
			})
		})
	}
}

func TestMemoryForgetsWhatHasExpired(t *testing.T) {
	for _, a := range algorithm.All {
		t.Run(a.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := NewMemory(MemoryOptions{})
				defer m.Close()
				l := limitOf(t, a.Name, 5, time.Second)
				for i := range 5000 {
					ask1(t, m, fmt.Sprint(i%2500), l, int64(1+i%3))
				}
				if got := m.Keys(); got != 2500 {
					t.Errorf("keys = %d, want 2500", got)
				}
				time.Sleep(3 * time.Second) // two windows, and time to tidy up
				if got := m.Keys(); got != 0 {
					t.Errorf("keys after expiry = %d, want 0", got)
				}
				for _, s := range m.shards {
					if s.bytes != 0 || len(s.spare.heap)+len(s.denying.heap) != 0 {
						t.Fatalf("%d bytes, %d+%d entries in agendas of an empty shard", s.bytes, len(s.spare.heap), len(s.denying.heap))
					}
				}
			})
		})
	}
}

func TestMemoryBoundsBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const bound = 1 << 20
		m := NewMemory(MemoryOptions{MaxKeys: 1000, MaxBytes: bound})
		defer m.Close()
		l := limitOf(t, "sliding_window_log", 10_000, time.Hour)
		for i := range 1000 { // 40 kB each
			ask1(t, m, fmt.Sprint(i), l, 5000)
		}
		var held int64
		for _, s := range m.shards {
			held += s.bytes
		}
		if held > bound || m.Keys() < 10 {
			t.Errorf("%d bytes in %d keys, want at most %d bytes", held, m.Keys(), bound)
		}
	})
}

func TestMemoryManyKeysInOneRequest(t *testing.T) {
	m := NewMemory(MemoryOptions{})
	defer m.Close()
	l := limitOf(t, "token_bucket", 10_000, 100*time.Hour)
	const n = 10_000
	asks, out := make([]algorithm.Ask, n), make([]algorithm.Decision, n)
	for i := range asks {
		asks[i] = algorithm.Ask{Key: fmt.Appendf(nil, "key %d", i/2), Limit: l, Hits: 1} // each key twice
	}
	began := time.Now()
	m.Decide(context.Background(), asks, out)
	t.Logf("%d asks in %v", n, time.Since(began))
	for i := range out {
		if want := int64(i%2 + 1); out[i].Outcome != algorithm.Allowed || out[i].After != want {
			t.Fatalf("ask %d: %v after %d, want allowed after %d", i, out[i].Outcome, out[i].After, want)
		}
	}
	if got := m.Keys(); got != n/2 {
		t.Errorf("keys = %d, want %d", got, n/2)
	}
}

// Making room for a request's new keys never drops its known ones.
func TestMemoryKeepsTheKeysOfTheRequest(t *testing.T) {
	m := NewMemory(MemoryOptions{MaxKeys: 2})
	defer m.Close()
	short, long := limitOf(t, "fixed_window", 10, time.Hour), limitOf(t, "fixed_window", 10, 24*time.Hour)
	ask1(t, m, "known", short, 3)
	ask1(t, m, "other", long, 3)
	asks := []algorithm.Ask{{Key: []byte("new"), Limit: long, Hits: 1}, {Key: []byte("known"), Limit: short, Hits: 1}}
	out := make([]algorithm.Decision, 2)
	m.Decide(context.Background(), asks, out)
	if out[1].After != 4 || out[0].After != 1 {
		t.Errorf("new after %d, known after %d; want 1, 4 (%v)", out[0].After, out[1].After, out[0].Err)
	}
	if got := strings.Join(heldKeys(m), " "); got != "known new" {
		t.Errorf("held: %s, want known new", got)
	}
	// Three keys do not fit: nothing is charged, and what is held stays in order.
	asks = append(asks, algorithm.Ask{Key: []byte("third"), Limit: long, Hits: 1})
	out = make([]algorithm.Decision, 3)
	m.Decide(context.Background(), asks, out)
	for i := range out {
		if !errors.Is(out[i].Err, ErrFull) {
			t.Errorf("ask %d: %v %v, want %v", i, out[i].Outcome, out[i].Err, ErrFull)
		}
	}
	if d := ask1(t, m, "known", short, 1); d.After != 5 {
		t.Errorf("known after %d, want 5", d.After)
	}
}

// The agendas stay heaps, and hold each entry once, whatever is asked.
func TestMemoryAgendasStayInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory(MemoryOptions{MaxKeys: 50})
		defer m.Close()
		random := rand.New(rand.NewPCG(1, 2))
		var limits []*algorithm.Limit
		for _, a := range algorithm.All {
			limits = append(limits, limitOf(t, a.Name, 4, time.Second), limitOf(t, a.Name, 2, time.Minute))
		}
		for step := range 20_000 {
			asks := make([]algorithm.Ask, 1+random.IntN(4))
			for i := range asks {
				k := random.IntN(100)
				asks[i] = algorithm.Ask{
					Key: fmt.Append(nil, k), Limit: limits[k%len(limits)], Hits: random.Int64N(4),
					Mode: algorithm.Mode(random.IntN(3)), Group: int32(i / 2),
				}
			}
			m.Decide(context.Background(), asks, make([]algorithm.Decision, len(asks)))
			if step%10 == 0 {
				time.Sleep(time.Duration(random.IntN(int(time.Second))))
			}
			checkShards(t, m)
		}
	})
}

func checkShards(t *testing.T, m *Memory) {
	t.Helper()
	for _, s := range m.shards {
		s.mu.Lock()
		if in := len(s.spare.heap) + len(s.denying.heap); in != s.entries.len() || s.entries.len() > s.maxKeys {
			t.Fatalf("%d entries, %d in agendas, bound %d", s.entries.len(), in, s.maxKeys)
		}
		for _, a := range []*agenda{&s.spare, &s.denying} {
			for i, e := range a.heap {
				if int(e.index) != i || e.in != a.id || e.gone || s.entries.find(s.entries.hash(e.key), []byte(e.key)) != e || a.heap[(i-1)/2].due > e.due {
					t.Fatalf("entry %q is out of order", e.key)
				}
			}
		}
		s.mu.Unlock()
	}
}

func wantMetric(t *testing.T, reg *prometheus.Registry, name string, want float64) {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		var got float64
		for _, m := range f.GetMetric() {
			got += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
		if got != want {
			t.Errorf("%s = %v, want %v", name, got, want)
		}
		return
	}
	t.Errorf("no metric %s", name)
}
