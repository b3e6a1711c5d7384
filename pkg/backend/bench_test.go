package backend

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ratelimitd/ratelimitd/internal/redistest"
	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// BenchmarkMemory is the cost of one decision in memory: on one key that all
// callers share, and spread over 10,000 keys.
func BenchmarkMemory(b *testing.B) {
	for _, a := range algorithm.All {
		for _, keys := range []int{1, 10_000} {
			b.Run(fmt.Sprintf("%s/keys=%d", a.Name, keys), func(b *testing.B) {
				m := NewMemory(MemoryOptions{})
				defer m.Close()
				benchmarkDecide(b, m, limitOf(b, a.Name, 1000, time.Second), keys, 1)
			})
		}
	}
}

// BenchmarkMemoryNewKeys is the cost of a key that was never seen, in a store
// that is full.
func BenchmarkMemoryNewKeys(b *testing.B) {
	m := NewMemory(MemoryOptions{MaxKeys: 100_000})
	defer m.Close()
	l := limitOf(b, "token_bucket", 1000, time.Hour)
	var out [1]algorithm.Decision
	k := make([]byte, 0, 32)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		k = fmt.Appendf(k[:0], "key %d", i)
		m.Decide(context.Background(), []algorithm.Ask{{Key: k, Limit: l, Hits: 1}}, out[:])
	}
}

// BenchmarkRedis is the cost of one call, of one request and of a batch.
func BenchmarkRedis(b *testing.B) {
	s := redistest.Start(b, redistest.Options{})
	server, err := ParseRedisURL(s.URL())
	if err != nil {
		b.Fatal(err)
	}
	r, err := NewRedis(RedisOptions{Server: server, ReadTimeout: 10 * time.Second})
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	for _, a := range algorithm.All {
		for _, batch := range []int{1, 50} {
			b.Run(fmt.Sprintf("%s/batch=%d", a.Name, batch), func(b *testing.B) {
				benchmarkDecide(b, r, limitOf(b, a.Name, 1000, time.Second), 10_000, batch)
			})
		}
	}
}

// benchmarkDecide measures batches of requests of one ask each, from several
// callers at once.
func benchmarkDecide(b *testing.B, d decider, l *algorithm.Limit, keys, batch int) {
	names := make([][]byte, keys)
	for i := range names {
		names[i] = fmt.Appendf(nil, "{%02x}1 bench %s %d", i%256, l.Algorithm.Name, i)
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		random := rand.New(rand.NewPCG(1, rand.Uint64()))
		asks, out := make([]algorithm.Ask, batch), make([]algorithm.Decision, batch)
		for pb.Next() {
			for i := range asks {
				asks[i] = algorithm.Ask{Key: names[random.IntN(keys)], Limit: l, Hits: 1, Group: int32(i)}
			}
			d.Decide(context.Background(), asks, out)
			if out[0].Err != nil {
				b.Error(out[0].Err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(batch), "ns/decision")
}
