package backend

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ratelimitd/ratelimitd/internal/redistest"
	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// What a round leaves to the next, where others were quicker at some counters. Rows
// are rounds: what is used of each counter as read, and which write is lost.
func TestMemcachedRounds(t *testing.T) {
	const capacity = 10
	type reading struct {
		used int64
		lost bool
	}
	for name, row := range map[string]struct {
		asks   []algorithm.Ask
		rounds [][]reading
		want   string  // outcomes in the end
		taken  []int64 // by the request of each counter, of what was written
		undone int     // asks that are given back
	}{
		"charged in the second round": {
			make([]algorithm.Ask, 2), [][]reading{{{0, false}, {0, true}}, {{9, false}, {5, false}}},
			"allowed allowed", []int64{1, 1}, 0, // the first is not charged twice
		},
		"full in the second round": {
			make([]algorithm.Ask, 2), [][]reading{{{0, false}, {9, true}}, {{1, false}, {10, false}}},
			"allowed denied", []int64{1, 0}, 1,
		},
		"denied, and then room": {
			make([]algorithm.Ask, 2), [][]reading{{{0, false}, {10, true}}, {{3, false}, {5, false}}},
			"allowed allowed", []int64{1, 1}, 0, // what was not charged in the first round is now
		},
		"denied, and then full elsewhere": {
			make([]algorithm.Ask, 2), [][]reading{{{0, false}, {10, true}}, {{10, false}, {5, false}}},
			"denied allowed", []int64{0, 0}, 0,
		},
		"shadow is charged once": {
			[]algorithm.Ask{{Shadow: true}, {}}, [][]reading{{{0, false}, {10, true}}, {{1, false}, {10, true}}, {{1, false}, {3, false}}},
			"allowed allowed", []int64{1, 1}, 0,
		},
		"reference, each by itself": {
			[]algorithm.Ask{{Counting: algorithm.Reference}, {Counting: algorithm.Reference}}, [][]reading{{{10, false}, {0, true}}, {{11, false}, {4, false}}},
			"denied allowed", []int64{1, 1}, 0,
		},
		"what is over, once": {
			[]algorithm.Ask{{Counting: algorithm.OnlyOver}, {Counting: algorithm.OnlyOver}, {Counting: algorithm.OnlyOver}},
			[][]reading{{{10, false}, {10, true}, {0, false}}, {{11, false}, {10, false}, {0, false}}},
			"denied denied allowed", []int64{1, 1, 0}, 0,
		},
		"one quota of two": {
			[]algorithm.Ask{{Quota: true}, {Quota: true}}, [][]reading{{{0, false}, {9, true}}, {{1, false}, {10, false}}},
			"allowed denied", []int64{1, 0}, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := limitOf(t, "fixed_window", capacity, aLongTime)
			q := &request{asks: row.asks, out: make([]algorithm.Decision, len(row.asks)), counters: make([]*counter, len(row.asks))}
			taken := make([]int64, len(row.asks))
			for i := range q.asks {
				q.asks[i].Key, q.asks[i].Limit, q.asks[i].Hits = []byte{byte(i)}, l, 1
			}
			now := time.Now().UnixMicro()
			r := &round{pending: []*request{q}}
			for n, round := range row.rounds {
				r.gather(n == 0)
				before := make([]int64, len(q.counters))
				for i, c := range q.counters {
					if c != nil {
						d := algorithm.Decision{}
						algorithm.Decide(now, []algorithm.Ask{{Limit: l, Hits: round[i].used, Mode: algorithm.Forced}}, []*algorithm.State{&c.state}, []algorithm.Decision{d})
						before[i], c.found = c.state.Used, true
					}
				}
				q.decide(now, nil)
				for i, c := range q.counters {
					if c == nil {
						continue
					}
					if c.lost = round[i].lost; !c.lost {
						taken[i] += c.state.Used - before[i]
					}
				}
				if again := q.settle(); again != (n < len(row.rounds)-1) {
					t.Fatalf("round %d: again %v", n, again)
				}
			}
			var got []string
			undone := 0
			for i := range q.out {
				got = append(got, q.out[i].Outcome.String())
				if !passes(q.asks, q.out) && charged(&q.asks[i], &q.out[i]) {
					undone++
				}
			}
			if text := strings.Join(got, " "); text != row.want || fmt.Sprint(taken) != fmt.Sprint(row.taken) || undone != row.undone {
				t.Errorf("%s, taken %v, %d undone; want %s, %v, %d", text, taken, undone, row.want, row.taken, row.undone)
			}
		})
	}
}

// On one server, and with nobody else, memcached decides as the memory does,
// whatever is asked.
func TestMemcachedDecidesAsMemory(t *testing.T) {
	m, _ := openMemcached(t, []*redistest.Memcached{redistest.StartMemcached(t, redistest.MemcachedOptions{})}, nil)
	memory := NewMemory(MemoryOptions{})
	t.Cleanup(memory.Close)
	random := rand.New(rand.NewPCG(3, 4))
	var limits []*algorithm.Limit
	for _, a := range algorithm.All {
		for _, overdraw := range []bool{false, true} {
			l, err := algorithm.NewLimit(algorithm.Spec{Algorithm: a.Name, Requests: 12, Window: 10_000 * time.Hour, Overdraw: overdraw})
			if err != nil {
				t.Fatal(err)
			}
			limits = append(limits, l)
		}
	}
	for step := range 400 {
		var asks []algorithm.Ask
		for group := range 1 + random.Int32N(3) {
			counting := algorithm.Counting(random.IntN(3))
			for range 1 + random.IntN(4) {
				which := random.IntN(len(limits))
				asks = append(asks, algorithm.Ask{
					Key: fmt.Appendf(nil, "{a}%d/%d", which, random.IntN(2)), Limit: limits[which], Hits: random.Int64N(4), Group: group,
					Mode: algorithm.Mode(random.IntN(12) % 10 % 3), Counting: counting, Shadow: random.IntN(6) == 0, Quota: random.IntN(5) == 0,
				})
			}
		}
		want, got := make([]algorithm.Decision, len(asks)), make([]algorithm.Decision, len(asks))
		memory.Decide(t.Context(), asks, want)
		m.Decide(t.Context(), asks, got)
		for i := range asks {
			if g, w := got[i], want[i]; g.Outcome != w.Outcome || g.Before != w.Before || g.After != w.After || g.Remaining != w.Remaining {
				t.Fatalf("step %d, ask %d of %+v:\n got %+v\nwant %+v", step, i, asks, g, w)
			}
		}
	}
}

// What was admitted locally while memcached was away is charged to it when it is
// back.
func TestMemcachedLocal(t *testing.T) {
	server := redistest.StartMemcached(t, redistest.MemcachedOptions{})
	m, _ := openMemcached(t, []*redistest.Memcached{server}, nil)
	var replicas atomic.Int64
	replicas.Store(2)
	local := NewLocal(m, LocalOptions{Replicas: func() int { return int(replicas.Load()) }})
	t.Cleanup(local.Close)
	p := WithFailurePolicy(m, FailureOptions{Timeout: 100 * time.Millisecond, Local: local})
	l := limitOf(t, "fixed_window", 10, aLongTime)
	ask := []algorithm.Ask{{Key: []byte("{a}k"), Limit: l, Hits: 1, OnStoreError: algorithm.FailLocal}}
	server.Kill()
	allowed := 0
	for range 10 {
		var out [1]algorithm.Decision
		p.Decide(t.Context(), ask, out[:])
		if !out[0].Degraded {
			t.Fatalf("%+v", out[0])
		}
		if out[0].Outcome == algorithm.Allowed {
			allowed++
		}
	}
	if allowed != 5 {
		t.Errorf("%d allowed, and the share is 5", allowed)
	}
	server.Restart(t)
	await(t, "the hits come home", func() bool { return ask1(t, m, "{a}k", l, 0).After == 5 })
}
