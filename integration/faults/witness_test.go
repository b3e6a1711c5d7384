package faults

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// glance is how often a witness looks.
	glance = 10 * time.Millisecond

	// stalled is what a look takes on a machine that is too busy for promises in milliseconds.
	stalled = storeTimeout / 4
)

// witness notes when the machine itself was too busy, which is a fault that nobody ordered: then looks are slow that
// have nothing to do with a decision. Without it a busy machine would look like a fault of ratelimitd.
type witness struct {
	halt chan struct{}
	done sync.WaitGroup

	mu     sync.Mutex
	stalls []stall // guarded by mu
}

// stall is when a look took too long.
type stall struct {
	span

	store bool // at a store, which may be slow since it was told to be
}

// watch begins to look at Redis servers directly, and at the health checks of replicas, which wait for nothing.
func watch(t *testing.T, servers []*redis.Client, replicas []*replica) *witness {
	t.Helper()
	w := &witness{halt: make(chan struct{})}
	for _, server := range servers {
		w.look(true, func(ctx context.Context) { _ = server.Ping(ctx).Err() }) // one that is away fails at once
	}
	for _, r := range replicas {
		w.look(false, func(context.Context) { r.health() })
	}
	t.Cleanup(func() { w.stop() })
	return w
}

// look looks again and again, and notes what took too long, the pause included.
func (w *witness) look(store bool, at func(context.Context)) {
	w.done.Go(func() {
		timer := time.NewTicker(glance)
		defer timer.Stop()
		began := now()
		for {
			select {
			case <-w.halt:
				return
			case <-timer.C:
			}
			ctx, cancel := context.WithTimeout(context.Background(), give)
			at(ctx)
			cancel()
			ended := now()
			if ended.since(began) > glance+stalled {
				w.mu.Lock()
				w.stalls = append(w.stalls, stall{span{began, ended}, store})
				w.mu.Unlock()
			}
			began = ended
		}
	})
}

// stop ends the looking and returns when the machine was too busy, in spans that are apart: that a store was slow in a fault is not
// held against the machine.
func (w *witness) stop(faults ...fault) []span {
	select {
	case <-w.halt:
	default:
		close(w.halt)
	}
	w.done.Wait()
	var spans []span
	for _, s := range w.stalls {
		ordered := func(f fault) bool { return s.from <= f.ended && s.to >= f.began }
		if !s.store || !slices.ContainsFunc(faults, ordered) {
			spans = append(spans, s.span)
		}
	}
	return apart(spans)
}
