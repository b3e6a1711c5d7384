package statsd

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"
)

// kept is how many times of an interval are told one by one.
const kept = 100

// times keeps a fair sample of durations, and counts all. The zero value is
// empty; it is safe for concurrent use.
type times struct {
	mu     sync.Mutex
	sample [kept]time.Duration
	seen   int // since the sample was taken

	count   uint64
	sum     float64   // milliseconds
	bounds  []float64 // of the buckets, in milliseconds; nil: there are none
	buckets []uint64
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
	took := float64(d) / float64(time.Millisecond)
	t.count += uint64(n)
	t.sum += took * float64(n)
	if i, _ := slices.BinarySearch(t.bounds, took); i < len(t.buckets) {
		t.buckets[i] += uint64(n)
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

// divide has durations be counted in buckets, by their upper bounds in
// milliseconds.
func (t *times) divide(bounds []float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.bounds = slices.Clone(bounds)
	slices.Sort(t.bounds)
	t.buckets = make([]uint64, len(bounds))
}

// divided returns the number of all durations, their sum, and how many are not
// longer than each bound, or nil. Milliseconds are multiplied by scale.
func (t *times) divided(scale float64) (count uint64, sum float64, buckets map[float64]uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.bounds != nil {
		buckets = make(map[float64]uint64, len(t.bounds))
	}
	below := uint64(0)
	for i, bound := range t.bounds {
		below += t.buckets[i]
		buckets[round(bound*scale)] = below
	}
	return t.count, t.sum * scale, buckets
}

// round takes away what multiplying and dividing has added.
func round(x float64) float64 {
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 12, 64), 64)
	if err != nil {
		return x // it was no number
	}
	return rounded
}
