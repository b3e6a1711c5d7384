package backend

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ratelimitd/ratelimitd/internal/redistest"
	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// BenchmarkDistance measures how long a decision takes when Redis is so many
// milliseconds away, there and back: for a caller that is alone, and for each
// of 64, who wait for the call that is on its way, and then for their own. The numbers in docs/regions.md are from here:
//
//	go test ./pkg/backend -run '^$' -bench Distance -benchtime 1000x
func BenchmarkDistance(b *testing.B) {
	for _, away := range []int{0, 1, 5, 20, 80} {
		for _, callers := range []int{1, 64} {
			b.Run(fmt.Sprintf("away=%dms/callers=%d", away, callers), func(b *testing.B) {
				redis := redistest.Start(b, redistest.Options{})
				far := distant(b, redis.ClientOptions().Addr, time.Duration(away)*time.Millisecond/2)
				server, err := ParseRedisURL("redis://" + far)
				if err != nil {
					b.Fatal(err)
				}
				store, err := NewRedis(RedisOptions{Server: server, DialTimeout: time.Minute, ReadTimeout: time.Minute, Log: slog.New(slog.DiscardHandler)})
				if err != nil {
					b.Fatal(err)
				}
				defer store.Close()
				took := decideTogether(b, store, callers)
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
				b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
			})
		}
	}
}

// decideTogether has so many callers ask one thing after the other, each of a
// key of its own, and returns how long the decisions took, sorted.
func decideTogether(b *testing.B, store *Redis, callers int) []time.Duration {
	var mu sync.Mutex
	var all []time.Duration
	limit := limitOf(b, "token_bucket", 1<<30, time.Second)
	var running sync.WaitGroup
	for c := range callers {
		running.Go(func() {
			asks := []algorithm.Ask{{Key: fmt.Appendf(nil, "{%02x}caller", c), Limit: limit, Hits: 1}}
			out := make([]algorithm.Decision, 1)
			var took []time.Duration
			for i := range 1 + max(1, b.N/callers) {
				begin := time.Now()
				store.Decide(b.Context(), asks, out)
				if out[0].Outcome != algorithm.Allowed {
					b.Errorf("%v: %v", out[0].Outcome, out[0].Err)
					return
				}
				if i > 0 { // the first opens the connection
					took = append(took, time.Since(begin))
				}
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, took...)
		})
	}
	running.Wait()
	slices.Sort(all)
	if len(all) == 0 {
		b.Fatal("nothing was decided")
	}
	return all
}

// distant returns the address of a server which everything on its way to
// another one, or back, takes so long to cross.
func distant(b *testing.B, to string, crossing time.Duration) string {
	b.Helper()
	return listenFor(b, func(near net.Conn) {
		far, err := net.Dial("tcp", to)
		if err != nil {
			near.Close()
			return
		}
		go cross(far, near, crossing)
		cross(near, far, crossing)
	})
}

// cross copies what is read to where it goes, each piece so much later.
func cross(to io.WriteCloser, from io.Reader, later time.Duration) {
	type piece struct {
		bytes []byte
		due   time.Time
	}
	way := make(chan piece, 1024)
	go func() {
		defer close(way)
		for {
			buffer := make([]byte, 64<<10)
			n, err := from.Read(buffer)
			if err != nil {
				return
			}
			way <- piece{buffer[:n], time.Now().Add(later)}
		}
	}()
	defer to.Close()
	for p := range way {
		time.Sleep(time.Until(p.due))
		if _, err := to.Write(p.bytes); err != nil {
			return
		}
	}
}
