package service

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// durationBounds are the upper bounds of the buckets of durations.
var durationBounds = [...]time.Duration{
	20 * time.Microsecond, 50 * time.Microsecond, 100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond,
	50 * time.Millisecond, 100 * time.Millisecond, time.Second,
}

// histogram counts durations by size. Unlike prometheus' own it takes many
// equal ones at the cost of one. The zero value is empty.
type histogram struct {
	buckets [len(durationBounds) + 1]atomic.Uint64 // not cumulative; the last is for what is longer
	seconds atomic.Uint64                          // the sum, as the bits of a float64
}

// observe adds n durations of d.
func (h *histogram) observe(d time.Duration, n int) {
	if n == 0 {
		return
	}
	i := 0
	for i < len(durationBounds) && d > durationBounds[i] {
		i++
	}
	h.buckets[i].Add(uint64(n))
	for {
		before := h.seconds.Load()
		if h.seconds.CompareAndSwap(before, math.Float64bits(math.Float64frombits(before)+d.Seconds()*float64(n))) {
			return
		}
	}
}

// collect sends the histogram as a metric.
func (h *histogram) collect(out chan<- prometheus.Metric, d *prometheus.Desc, labels ...string) {
	cumulative := make(map[float64]uint64, len(durationBounds))
	count := uint64(0)
	for i := range durationBounds {
		count += h.buckets[i].Load()
		cumulative[durationBounds[i].Seconds()] = count
	}
	count += h.buckets[len(durationBounds)].Load()
	out <- prometheus.MustNewConstHistogram(d, count, math.Float64frombits(h.seconds.Load()), cumulative, labels...)
}
