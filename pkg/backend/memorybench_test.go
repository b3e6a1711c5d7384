package backend

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// BenchmarkMemoryKeySize is the memory that a key takes besides its own bytes, in a
// store of a million keys: as long as it lives, and with what growing left.
func BenchmarkMemoryKeySize(b *testing.B) {
	const keys = 1_000_000
	for _, a := range algorithm.All {
		b.Run(a.Name, func(b *testing.B) {
			l := limitOf(b, a.Name, 1000, time.Hour)
			for b.Loop() {
				m := NewMemory(MemoryOptions{MaxKeys: 2 * keys})
				before := heap()
				key := make([]byte, 0, 64)
				for i := range keys {
					key = fmt.Appendf(key[:0], "{%02x}14:edge,6:client,15:10.20.30.%07d,abcdefghijklmnop", i%256, i)
					m.Decide(b.Context(), []algorithm.Ask{{Key: key, Limit: l, Hits: 1}}, make([]algorithm.Decision, 1))
				}
				b.ReportMetric(float64(heap()-before)/keys-float64(len(key)), "bytes/key")
				m.Close()
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}
