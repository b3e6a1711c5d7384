package backend

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ratelimitd/ratelimitd/internal/redistest"
	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// What the nodes of a Cluster say of slots that move, or that nobody has, is
// followed or waited for, and concerns those slots alone.
func TestClusterRefuses(t *testing.T) {
	t.Parallel() // it waits for most of its time
	c := redistest.StartCluster(t, redistest.Options{})
	s := breakerStore(t, c.URL())
	l := limitOf(t, "fixed_window", 1_000_000, aLongTime)
	decide := func(timeout time.Duration, keys ...[]byte) []algorithm.Decision {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		out := make([]algorithm.Decision, len(keys))
		var asks []algorithm.Ask
		for _, k := range keys {
			asks = append(asks, algorithm.Ask{Key: k, Limit: l, Hits: 1})
		}
		s.Decide(ctx, asks, out)
		return out
	}
	// newTag returns a hash tag of which node 0 has the slot, and the slot. Each
	// has its own: nodes need a while to agree on one that moves to and fro.
	tags := 0
	newTag := func(t *testing.T) (string, int) {
		for {
			tags++
			tag := fmt.Sprint(tags)
			if slot := int(slotOf(key(t, tag, ""))); c.Owner(t, slot) == 0 {
				return tag, slot
			}
		}
	}
	wantAllowed := func(t *testing.T, after int64, keys ...[]byte) {
		t.Helper()
		for i, d := range decide(5*time.Second, keys...) {
			if d.Outcome != algorithm.Allowed || d.After != after {
				t.Errorf("key %d: %v after %d, want allowed after %d: %v", i, d.Outcome, d.After, after, d.Err)
			}
		}
	}
	wantShut := func(t *testing.T, want int) {
		t.Helper()
		if got := s.decider.(*Redis).breakersShut(); got != want {
			t.Errorf("%d breakers are open, want %d", got, want)
		}
	}

	t.Run("MOVED", func(t *testing.T) {
		tag, slot := newTag(t)
		wantAllowed(t, 1, key(t, tag, "a"))
		c.MoveSlot(t, slot, 1, nil)
		wantAllowed(t, 2, key(t, tag, "a"))
		wantShut(t, 0)
	})
	t.Run("ASK", func(t *testing.T) {
		tag, slot := newTag(t)
		c.MoveSlot(t, slot, 1, func() {
			wantAllowed(t, 1, key(t, tag, "new")) // at the node to which the slot moves
			wantAllowed(t, 2, key(t, tag, "new"))
		})
		wantAllowed(t, 3, key(t, tag, "new"))
		wantShut(t, 0)
	})
	t.Run("TRYAGAIN", func(t *testing.T) {
		tag, slot := newTag(t)
		there := key(t, tag, "there")
		wantAllowed(t, 1, there)
		c.MoveSlot(t, slot, 1, func() {
			for i := range 2 * tripAfter {
				d := decide(20*time.Millisecond, there, key(t, tag, "new"))[0]
				if !errors.Is(d.Err, ErrUnavailable) || !strings.Contains(d.Err.Error(), "TRYAGAIN") {
					if errors.Is(d.Err, ErrTimeout) {
						continue // a busy machine: it had no time to ask
					}
					t.Errorf("ask %d: %v %v", i, d.Outcome, d.Err)
				}
			}
		})
		wantShut(t, 0)
		wantAllowed(t, 2, there)
		wantAllowed(t, 1, key(t, tag, "new")) // it has not counted
	})
	t.Run("CLUSTERDOWN of a slot", func(t *testing.T) {
		tag, slot := newTag(t)
		other, _ := newTag(t)
		for _, node := range c.Masters {
			node.Do(t, "cluster", "delslots", slot)
		}
		await(t, "it is said", func() bool {
			d := decide(5*time.Second, key(t, tag, "k"))[0]
			return errors.Is(d.Err, ErrUnavailable) && strings.Contains(d.Err.Error(), "CLUSTERDOWN Hash slot not served")
		})
		for i := range 2 * tripAfter {
			decide(5*time.Second, key(t, tag, "k"))
			wantAllowed(t, int64(1+i), key(t, other, "k"))
		}
		wantShut(t, 0)
		c.Masters[0].Do(t, "cluster", "addslots", slot)
		began := time.Now()
		await(t, "it is decided", func() bool { return decide(5*time.Second, key(t, tag, "k"))[0].Outcome == algorithm.Allowed })
		if took := time.Since(began); took > backInTime {
			t.Errorf("normal after %v", took)
		}
	})
	t.Run("CLUSTERDOWN of all", func(t *testing.T) {
		tag, _ := newTag(t)
		k := key(t, tag, "k")
		wantAllowed(t, 1, k)
		ill := c.Masters[0]
		ill.Do(t, "config", "set", "cluster-require-full-coverage", "yes")
		lost := c.Slot(t, "a slot that node 0 forgets")
		ill.Do(t, "cluster", "delslots", lost)
		await(t, "its breaker opens", func() bool {
			d := decide(5*time.Second, k)[0]
			return d.Err != nil && strings.Contains(d.Err.Error(), "circuit breaker") && strings.Contains(d.Err.Error(), "CLUSTERDOWN The cluster is down")
		})
		wantShut(t, 1)
		ill.Do(t, "config", "set", "cluster-require-full-coverage", "no")
		began := time.Now()
		await(t, "it is decided", func() bool { return decide(5*time.Second, k)[0].Outcome == algorithm.Allowed })
		if took := time.Since(began); took > backInTime {
			t.Errorf("normal after %v", took)
		}
	})
}
