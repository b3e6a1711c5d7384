package backend

import (
	"context"
	"fmt"
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
