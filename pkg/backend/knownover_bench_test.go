package backend

import (
	"fmt"
	"testing"
	"time"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// BenchmarkKnownOver is the cost of what stands between a request and its store:
// of a key that is known to be over, of one that is not while others are, and
// while none is.
func BenchmarkKnownOver(b *testing.B) {
	for _, c := range []struct {
		name        string
		over, asked int
	}{{"over", 10_000, 0}, {"others", 10_000, 10_000}, {"none", 0, 0}} {
		b.Run(c.name, func(b *testing.B) {
			k := WithKnownOver(silentStore{}, KnownOverOptions{})
			l := limitOf(b, "fixed_window", 10, time.Hour)
			now := time.Now()
			for i := range c.over {
				ask := algorithm.Ask{Key: benchmarkKey(i), Limit: l, Hits: 1}
				k.known.add(now, &ask, &algorithm.Decision{Outcome: algorithm.Denied, RetryAfter: time.Hour})
			}
			benchmarkSerial(b, k, l, c.asked)
		})
	}
}

func benchmarkKey(i int) []byte {
	return fmt.Appendf(nil, "{%02x}14:edge,6:client,15:10.20.30.%06d,abcdefghijklmnop", i%256, i)
}

// benchmarkSerial measures requests of one ask, one after another, on 10,000
// keys from one on.
func benchmarkSerial(b *testing.B, d decider, l *algorithm.Limit, from int) {
	keys := make([][]byte, 10_000)
	for i := range keys {
		keys[i] = benchmarkKey(from + i)
	}
	asks, out := make([]algorithm.Ask, 1), make([]algorithm.Decision, 1)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		asks[0] = algorithm.Ask{Key: keys[i*7919%len(keys)], Limit: l, Hits: 1}
		d.Decide(b.Context(), asks, out)
	}
}
