package statsd

import (
	"math/rand/v2"
	"sync"
	"time"
)

// kept is how many times of an interval are told one by one.
const kept = 100

// times keeps a fair sample of durations. The zero value is empty; it is safe
// for concurrent use.
type times struct {
	mu     sync.Mutex
	sample [kept]time.Duration
	seen   int // requests
}

// add adds n equal durations: each takes the place of another by chance, so that
// all have the same chance to be in the sample.
func (t *times) add(d time.Duration, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for range n {
		at := t.seen
		if at >= kept {
			at = rand.IntN(t.seen + 1)
		}
		if at < kept {
			t.sample[at] = d
		}
		t.seen++
	}
}

// take returns the sample and of how many it is one, and begins anew.
func (t *times) take() (sample []time.Duration, seen int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	sample, seen = append(sample, t.sample[:min(kept, t.seen)]...), t.seen
	t.seen = 0
	return sample, seen
}
