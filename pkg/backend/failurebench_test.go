package backend

import (
	"testing"
	"time"
)

// BenchmarkFailurePolicy is what it costs to keep a deadline, of a store that
// may wait and of one that never does.
func BenchmarkFailurePolicy(b *testing.B) {
	l := limitOf(b, "fixed_window", 1_000_000, time.Hour)
	m := NewMemory(MemoryOptions{})
	defer m.Close()
	b.Run("waits", func(b *testing.B) {
		benchmarkSerial(b, WithFailurePolicy(struct{ decider }{m}, FailureOptions{}), l, 0)
	})
	b.Run("never", func(b *testing.B) { benchmarkSerial(b, WithFailurePolicy(m, FailureOptions{}), l, 0) })
	b.Run("none", func(b *testing.B) { benchmarkSerial(b, m, l, 0) })
}
