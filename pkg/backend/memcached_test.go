package backend

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ratelimitd/ratelimitd/internal/redistest"
	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// Four replicas with sixteen callers each ask for one counter all at once: what is
// admitted is the limit, and everything is decided.
func TestMemcachedIsExactOverReplicas(t *testing.T) {
	server := redistest.StartMemcached(t, redistest.MemcachedOptions{})
	var replicas []*Memcached
	for range 4 {
		m, _ := openMemcached(t, []*redistest.Memcached{server}, nil)
		replicas = append(replicas, m)
	}
	forEachAlgorithm(t, func(t *testing.T, name string) {
		l := limitOf(t, name, 700, aLongTime)
		k := key(t, "hot", "key")
		var admitted, undecided atomic.Int64
		var wg sync.WaitGroup
		began := time.Now()
		for i := range 64 {
			wg.Go(func() {
				for range 20 {
					var out [1]algorithm.Decision
					replicas[i%4].Decide(context.Background(), []algorithm.Ask{{Key: k, Limit: l, Hits: 1}}, out[:])
					switch out[0].Outcome {
					case algorithm.Allowed:
						admitted.Add(1)
					case algorithm.Undecided:
						undecided.Add(1)
					}
				}
			})
		}
		wg.Wait()
		t.Logf("1280 requests in %v", time.Since(began))
		if admitted.Load() != 700 || undecided.Load() != 0 {
			t.Errorf("%d of 1280 admitted, %d undecided; want 700, 0", admitted.Load(), undecided.Load())
		}
	})
}

// Requests that meet two counters, of which one is short, at several replicas: no
// more than it holds are admitted, and what was charged for the others comes back.
func TestMemcachedChargesAllOrNothingOverReplicas(t *testing.T) {
	servers := []*redistest.Memcached{redistest.StartMemcached(t, redistest.MemcachedOptions{}), redistest.StartMemcached(t, redistest.MemcachedOptions{})}
	var replicas []*testStore
	for range 3 {
		m, reg := openMemcached(t, servers, nil)
		replicas = append(replicas, &testStore{decider: m, reg: reg})
	}
	forEachAlgorithm(t, func(t *testing.T, name string) {
		for _, otherTag := range []string{"a", "b", "c", "d"} { // on the same server, or another
			plenty, scarce := limitOf(t, name, 1000, aLongTime), limitOf(t, name, 37, aLongTime)
			var admitted atomic.Int64
			var wg sync.WaitGroup
			for i := range 24 {
				wg.Go(func() {
					for range 5 {
						out := replicas[i%3].decide(t,
							algorithm.Ask{Key: key(t, "a", "plenty"+otherTag), Limit: plenty, Hits: 2},
							algorithm.Ask{Key: key(t, otherTag, "scarce"), Limit: scarce, Hits: 1},
							algorithm.Ask{Key: key(t, "a", "shadow"+otherTag), Limit: plenty, Hits: 1, Shadow: true})
						if out[0].Outcome == algorithm.Allowed && out[1].Outcome == algorithm.Allowed {
							admitted.Add(1)
						}
					}
				})
			}
			wg.Wait()
			if admitted.Load() != 37 {
				t.Errorf("tag %s: %d admitted, want 37", otherTag, admitted.Load())
			}
			got := show(replicas[0].decide(t,
				algorithm.Ask{Key: key(t, "a", "plenty"+otherTag), Limit: plenty},
				algorithm.Ask{Key: key(t, otherTag, "scarce"), Limit: scarce},
				algorithm.Ask{Key: key(t, "a", "shadow"+otherTag), Limit: plenty}))
			if want := fmt.Sprintf("ok:%d ok:0 ok:%d", 1000-2*37, 1000-120); got != want {
				t.Errorf("tag %s: in the end %s, want %s", otherTag, got, want)
			}
		}
	})
}

// However long a unit is, memcached keeps its counters: more than 30 days from now
// it reads as an instant since 1970, which was the end of all of them at once.
func TestMemcachedKeepsLongUnits(t *testing.T) {
	server := redistest.StartMemcached(t, redistest.MemcachedOptions{})
	m, _ := openMemcached(t, []*redistest.Memcached{server}, nil)
	const day = 24 * time.Hour
	for _, window := range []time.Duration{time.Second, day, 29 * day, 30 * day, 31 * day, 365 * day, 100 * 365 * day} {
		forEachAlgorithm(t, func(t *testing.T, name string) {
			l, err := algorithm.NewLimit(algorithm.Spec{Algorithm: name, Requests: 3, Window: window})
			if err != nil {
				t.Fatal(err)
			}
			k := fmt.Sprint(name, window)
			for i, want := range []algorithm.Outcome{algorithm.Allowed, algorithm.Allowed, algorithm.Allowed, algorithm.Denied} {
				if d := ask1(t, m, k, l, 1); d.Outcome != want && window > time.Second {
					t.Fatalf("%s in %v, hit %d: %v", name, window, i, d.Outcome)
				}
			}
			left := ask1(t, m, k, l, 0).Reset
			expires, found := server.Expiries(t)[memcachedKey([]byte(k))]
			if until := time.Until(time.Unix(expires, 0)); found && expires > 0 && (until < left-time.Second || until > left+lateInstant*time.Second+3*time.Second) {
				t.Errorf("%s in %v: kept for %v, and matters for %v", name, window, until, left)
			}
			if !found && window > time.Second {
				t.Errorf("%s in %v: not kept", name, window)
			}
		})
	}
}

func TestExpiration(t *testing.T) {
	const second, day = int64(1_000_000), int64(86_400_000_000)
	now := int64(1_800_000_000) * second
	for name, row := range map[string]struct {
		expiry int64
		want   int32
	}{
		"over":             {now, -1},
		"the past":         {0, -1},
		"at once":          {now + 1, 2},
		"a second":         {now + second, 2},
		"30 days":          {now + 30*day - second, 30 * 86400},
		"more":             {now + 30*day, 1_800_000_000 + 30*86400 + 3600},
		"a year":           {now + 365*day, 1_800_000_000 + 365*86400 + 3600},
		"the end of int32": {(1<<31 - 1 - 3600) * second, 1<<31 - 1},
		"beyond":           {(1<<31 - 3600) * second, 0},
	} {
		if got := expiration(row.expiry, now); got != row.want {
			t.Errorf("%s: %d, want %d", name, got, row.want)
		}
	}
}

// A key is what memcached takes, begins with the prefix, and is no other's.
func TestMemcachedKeys(t *testing.T) {
	seen := map[string]string{}
	for _, k := range []string{"", "{a}b", "{a}b ", "{a}\x00", "prefix:{a}b", "a b{a}b", string(make([]byte, 1000)), "x{y}\xff\xfe"} {
		got := memcachedKey([]byte(k))
		if other, found := seen[got]; found {
			t.Errorf("%q and %q have one key", k, other)
		}
		seen[got] = k
		if len(got) > 250 || strings.ContainsAny(got, " \t\r\n\x00\x7f") {
			t.Errorf("%q: memcached takes no key %q", k, got)
		}
	}
	if got := memcachedKey([]byte("prefix:{a}b")); !strings.HasPrefix(got, "prefix:") {
		t.Errorf("no prefix: %q", got)
	}
}

// What is no counter of ours concerns its own request only.
func TestMemcachedHoldsSomethingElse(t *testing.T) {
	server := redistest.StartMemcached(t, redistest.MemcachedOptions{})
	m, _ := openMemcached(t, []*redistest.Memcached{server}, nil)
	l := limitOf(t, "fixed_window", 5, aLongTime)
	server.Set(t, memcachedKey([]byte("{a}bad")), "17")
	asks := []algorithm.Ask{
		{Key: []byte("{a}good"), Limit: l, Hits: 1, Group: 1},
		{Key: []byte("{a}bad"), Limit: l, Hits: 1, Group: 2}, {Key: []byte("{a}beside"), Limit: l, Hits: 1, Group: 2},
		{Key: []byte("{a}good"), Limit: l, Hits: 1, Group: 3},
	}
	out := make([]algorithm.Decision, len(asks))
	m.Decide(t.Context(), asks, out)
	if !errors.Is(out[1].Err, algorithm.ErrCorrupt) || out[2].Outcome != algorithm.Undecided || out[0].Remaining != 4 || out[3].Remaining != 3 {
		t.Errorf("%+v", out)
	}
	if got := ask1(t, m, "{a}beside", l, 0).After; got != 0 {
		t.Errorf("beside it %d were charged", got)
	}
}

// A server that is stopped, killed or started anew costs nobody more time than he
// has, concerns its own counters only, and is asked again when it answers.
func TestMemcachedInTrouble(t *testing.T) {
	for name, row := range map[string]struct {
		begin, end func(t *testing.T, s *redistest.Memcached)
	}{
		"stopped": {func(_ *testing.T, s *redistest.Memcached) { s.Pause() }, func(_ *testing.T, s *redistest.Memcached) { s.Resume() }},
		"killed":  {func(_ *testing.T, s *redistest.Memcached) { s.Kill() }, func(t *testing.T, s *redistest.Memcached) { s.Restart(t) }},
	} {
		t.Run(name, func(t *testing.T) {
			servers := []*redistest.Memcached{redistest.StartMemcached(t, redistest.MemcachedOptions{}), redistest.StartMemcached(t, redistest.MemcachedOptions{})}
			m, _ := openMemcached(t, servers, func(o *MemcachedOptions) { o.Timeout, o.Budget = time.Second, 20*time.Millisecond })
			await(t, "ready", func() bool { return m.Ready() == nil })
			here, there := keysOn(m, servers[0]), keysOn(m, servers[1])
			l := limitOf(t, "fixed_window", 1_000_000, aLongTime)
			ask1(t, m, here, l, 1)
			ask1(t, m, there, l, 1)
			row.begin(t, servers[0])
			before := goroutines()
			var most, undecided, decided atomic.Int64
			var wg sync.WaitGroup
			for i := range 40 {
				wg.Go(func() {
					for range 10 {
						ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
						began := time.Now()
						var out [1]algorithm.Decision
						m.Decide(ctx, []algorithm.Ask{{Key: []byte([]string{here, there}[i%2]), Limit: l, Hits: 1}}, out[:])
						cancel()
						if took := time.Since(began); took > 300*time.Millisecond {
							t.Errorf("an answer after %v, and 50 ms were given", took)
						}
						atomicMax(&most, int64(goroutines()))
						switch {
						case i%2 == 0 && out[0].Outcome == algorithm.Undecided:
							undecided.Add(1)
						case i%2 == 1 && out[0].Outcome == algorithm.Allowed:
							decided.Add(1)
						}
					}
				})
			}
			wg.Wait()
			if undecided.Load() != 200 || decided.Load() != 200 {
				t.Errorf("%d of 200 undecided, %d of 200 decided at the other server", undecided.Load(), decided.Load())
			}
			if got := int(most.Load()) - before; got > 40+100 {
				t.Errorf("%d goroutines more", got)
			}
			row.end(t, servers[0])
			await(t, "the store decides", func() bool { return ask1(t, m, here, l, 1).Outcome == algorithm.Allowed })
			if after := ask1(t, m, there, l, 0).After; after != 201 {
				t.Errorf("the other server's counter stands at %d, want 201", after)
			}
		})
	}
}

// keysOn returns a key that lies on a server.
func keysOn(m *Memcached, server *redistest.Memcached) string {
	servers := m.servers.Load()
	for i := range 1000 {
		k := fmt.Sprintf("{%d}key", i)
		if servers.all[servers.slotOf([]byte(k))].address == server.Address {
			return k
		}
	}
	panic("no key lies there")
}

// A server that has started anew is used at once: no kept connection to the old
// one costs a request.
func TestMemcachedStartsAnew(t *testing.T) {
	server := redistest.StartMemcached(t, redistest.MemcachedOptions{})
	m, _ := openMemcached(t, []*redistest.Memcached{server}, nil)
	l := limitOf(t, "fixed_window", 1000, aLongTime)
	var asks []algorithm.Ask
	for i := range 50 { // over many connections
		asks = append(asks, algorithm.Ask{Key: fmt.Appendf(nil, "{a}%d", i), Limit: l, Hits: 1, Group: int32(i)})
	}
	for range 3 {
		out := make([]algorithm.Decision, len(asks))
		m.Decide(t.Context(), asks, out)
		for i := range out {
			if out[i].Outcome != algorithm.Allowed || out[i].After != 1 {
				t.Fatalf("ask %d: %+v", i, out[i])
			}
		}
		server.Kill()
		server.Restart(t)
	}
}
