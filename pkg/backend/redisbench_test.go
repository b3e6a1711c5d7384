package backend

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ratelimitd/ratelimitd/internal/redistest"
	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// BenchmarkRedisMerged is what a request of one ask costs this process and
// Redis, in processor's time by the account of each, and how long it takes, when
// so many callers ask at once, each for a batch of requests: two for a batch are
// two connections of the frame-level transport, many for one are grpc-go.
func BenchmarkRedisMerged(b *testing.B) {
	s := redistest.Start(b, redistest.Options{})
	r := benchmarkStore(b, s.URL())
	for _, shape := range []struct{ callers, batch int }{{1, 1}, {2, 1}, {8, 1}, {32, 1}, {128, 1}, {2, 4}, {2, 16}, {2, 64}} {
		for _, keys := range []int{1, 10_000} {
			b.Run(fmt.Sprintf("callers=%d/batch=%d/keys=%d", shape.callers, shape.batch, keys), func(b *testing.B) {
				benchmarkCallers(b, r, []*redistest.Server{s}, shape.callers, shape.batch, keys)
			})
		}
	}
}

// BenchmarkRedisMergedCluster is the same with three nodes, over which the keys
// are spread in 256 hash slots.
func BenchmarkRedisMergedCluster(b *testing.B) {
	c := redistest.StartCluster(b, redistest.Options{})
	r := benchmarkStore(b, c.URL())
	for _, shape := range []struct{ callers, batch int }{{1, 1}, {128, 1}, {2, 64}} {
		b.Run(fmt.Sprintf("callers=%d/batch=%d/keys=10000", shape.callers, shape.batch), func(b *testing.B) {
			benchmarkCallers(b, r, c.Masters, shape.callers, shape.batch, 10_000)
		})
	}
}

func benchmarkStore(b *testing.B, url string) *Redis {
	server, err := ParseRedisURL(url)
	if err != nil {
		b.Fatal(err)
	}
	r, err := NewRedis(RedisOptions{Server: server, ReadTimeout: 10 * time.Second})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = r.Close() })
	return r
}

func benchmarkCallers(b *testing.B, d decider, servers []*redistest.Server, callers, batch, keys int) {
	names := make([][]byte, keys)
	for i := range names {
		names[i] = fmt.Appendf(nil, "{%02x}14:edge,6:client,15:10.20.30.%d,abcdefghijklmnop", i%256, i)
	}
	l := limitOf(b, "fixed_window", 1_000_000, time.Minute)
	var left atomic.Int64
	left.Store(int64(b.N))
	took := make([][]time.Duration, callers)
	redis, own := redisTime(b, servers), processTime(b)
	b.ResetTimer()
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(i)))
			asks, out := make([]algorithm.Ask, batch), make([]algorithm.Decision, batch)
			for left.Add(-int64(batch)) > -int64(batch) {
				for i := range asks {
					asks[i] = algorithm.Ask{Key: names[random.IntN(keys)], Limit: l, Hits: 1, Group: int32(i)}
				}
				began := time.Now()
				d.Decide(context.Background(), asks, out)
				took[i] = append(took[i], time.Since(began))
				if out[0].Err != nil {
					b.Error(out[0].Err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	perRequest := func(d time.Duration) float64 { return float64(d) / float64(b.N) }
	b.ReportMetric(perRequest(processTime(b)-own), "own-ns/request")
	b.ReportMetric(perRequest(redisTime(b, servers)-redis), "redis-ns/request")
	all := slices.Concat(took...)
	slices.Sort(all)
	b.ReportMetric(float64(all[len(all)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), "p99-µs")
}

// processTime is the processor's time that this process has used.
func processTime(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// redisTime is the processor's time that servers have used.
func redisTime(b *testing.B, servers []*redistest.Server) time.Duration {
	total := 0.0
	for _, s := range servers {
		for line := range strings.Lines(s.Do(b, "info", "cpu").(string)) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
			if name == "used_cpu_sys" || name == "used_cpu_user" {
				seconds, err := strconv.ParseFloat(value, 64)
				if err != nil {
					b.Fatal(err)
				}
				total += seconds
			}
		}
	}
	return time.Duration(total * float64(time.Second))
}
