package docs

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/ratelimitd/ratelimitd/internal/redistest"
	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
	"github.com/ratelimitd/ratelimitd/pkg/backend"
	"github.com/ratelimitd/ratelimitd/pkg/descriptors"
)

// asksFor returns asks of n users, each for its own counter, with the keys that the service would give them: domain edge,
// descriptor (user=user-0000123).
func asksFor(t testing.TB, a *algorithm.Algorithm, requests, n int, hits int64) []algorithm.Ask {
	t.Helper()
	text := fmt.Sprintf("domain: edge\ndescriptors:\n  - key: user\n    rate_limit: {requests_per_unit: %d, unit: hour, algorithm: %s}\n", requests, a.Name)
	rules, err := descriptors.Compile([]descriptors.File{{Name: "edge.yaml", Text: []byte(text)}}, descriptors.Options{})
	if err != nil {
		t.Fatal(err)
	}
	limit := rules.Limits()[0]
	asks := make([]algorithm.Ask, n)
	for i := range asks {
		entries := []descriptors.Entry{{Key: []byte("user"), Value: fmt.Appendf(nil, "user-%07d", i)}}
		asks[i] = algorithm.Ask{Key: limit.AppendKey(nil, entries), Limit: limit.Limit, Hits: hits, Group: int32(i)}
	}
	return asks
}

// decider is a store.
type decider interface {
	Decide(ctx context.Context, asks []algorithm.Ask, out []algorithm.Decision)
}

// decideAll lets a store decide asks, some at a time, and wants all of them allowed.
func decideAll(t testing.TB, store decider, asks []algorithm.Ask, atOnce int) {
	t.Helper()
	out := make([]algorithm.Decision, atOnce)
	for len(asks) > 0 {
		n := min(atOnce, len(asks))
		store.Decide(context.Background(), asks[:n], out)
		for _, d := range out[:n] {
			if d.Outcome != algorithm.Allowed {
				t.Fatalf("%v: %v", d.Outcome, d.Err)
			}
		}
		asks = asks[n:]
	}
}

// TestMemoryOfCounters measures what a counter takes in Redis and in the memory store, and compares with the table of
// docs/algorithms.md, whose row is: algorithm, bytes in Redis, bytes in the memory store.
func TestMemoryOfCounters(t *testing.T) {
	counters := map[int]int{1: 20_000, 100: 2_000, 10_000: 200} // by how many requests each keeps
	server := redistest.Start(t, redistest.Options{})
	for _, a := range algorithm.All {
		for _, hits := range hitsToMeasure(a) {
			row := a.Name
			if a == algorithm.SlidingWindowLog {
				row = fmt.Sprintf("%s, %d kept", a.Name, hits)
			}
			asks := asksFor(t, a, max(100, hits), counters[hits], 1)
			t.Run(row, func(t *testing.T) {
				wantAbout(t, row, 1, bytesInRedis(t, server, asks, hits))
				wantAbout(t, row, 2, bytesInMemory(t, asks, hits))
			})
		}
	}
}

func hitsToMeasure(a *algorithm.Algorithm) []int {
	if a == algorithm.SlidingWindowLog {
		return []int{1, 100, 10_000}
	}
	return []int{1}
}

// bytesInRedis returns by how much the server's memory grows, for each key, when each is hit so often.
func bytesInRedis(t *testing.T, server *redistest.Server, asks []algorithm.Ask, hits int) int {
	t.Helper()
	store := redisStore(t, server)
	defer store.Close()
	server.Do(t, "flushall")
	decideAll(t, store, asks[:1], 1) // connections and the script
	server.Do(t, "flushall")
	before := told(t, server, "used_memory")
	hit(t, store, asks, hits)
	return int(told(t, server, "used_memory")-before) / len(asks)
}

// told returns a number that Redis tells of itself.
func told(t testing.TB, server *redistest.Server, name string) float64 {
	t.Helper()
	text := server.Do(t, "info").(string)
	found := regexp.MustCompile(`(?m)^` + name + `:([\d.]+)`).FindStringSubmatch(text)
	if found == nil {
		t.Fatalf("Redis tells no %s", name)
	}
	n, err := strconv.ParseFloat(found[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// redisStore returns a store on a server. It says nothing.
func redisStore(t testing.TB, server *redistest.Server) *backend.Redis {
	t.Helper()
	where, err := backend.ParseRedisURL(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	store, err := backend.NewRedis(backend.RedisOptions{Server: where, ReadTimeout: patience, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// bytesInMemory returns by how much the heap grows, for each key.
func bytesInMemory(t *testing.T, asks []algorithm.Ask, hits int) int {
	t.Helper()
	store := backend.NewMemory(backend.MemoryOptions{MaxKeys: 10 * len(asks)})
	defer store.Close()
	heap := func() int {
		runtime.GC()
		runtime.GC() // what the first one found only then goes
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return int(stats.HeapAlloc)
	}
	before := heap()
	hit(t, store, asks, hits)
	grown := heap() - before
	runtime.KeepAlive(store)
	runtime.KeepAlive(asks)
	return grown / len(asks)
}

// hit charges each ask so many hits: one by one, as requests come, but for a log of many.
func hit(t *testing.T, store decider, asks []algorithm.Ask, hits int) {
	t.Helper()
	each := max(1, hits/100)
	for range hits / each {
		charged := make([]algorithm.Ask, len(asks))
		copy(charged, asks)
		for i := range charged {
			charged[i].Hits = int64(each)
		}
		decideAll(t, store, charged, 100)
	}
}

// wantAbout compares a measured number with a column of the page's table. Servers and Go releases differ a little.
func wantAbout(t *testing.T, row string, column, measured int) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs/algorithms.md"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "| "), " | ")
		if strings.ReplaceAll(strings.ReplaceAll(cells[0], "`", ""), ",000", "000") != row || len(cells) <= column {
			continue
		}
		told, err := strconv.Atoi(strings.ReplaceAll(cells[column], ",", ""))
		if err != nil {
			continue // another table
		}
		t.Logf("%s: told %d, measured %d", row, told, measured)
		if measured < told*75/100 || measured > told*125/100 {
			t.Errorf("docs/algorithms.md tells %d bytes for %s, measured are %d", told, row, measured)
		}
		return
	}
	t.Errorf("docs/algorithms.md tells no bytes for %s in column %d; measured are %d", row, column, measured)
}

// BenchmarkRedisCPU measures the CPU time that Redis takes for a decision, network included, as Redis tells it: for script
// calls that carry one request, and fifty. The numbers in docs/algorithms.md are from here:
//
//	go test ./integration/docs -run '^$' -bench RedisCPU -benchtime 2000x
func BenchmarkRedisCPU(b *testing.B) {
	server := redistest.Start(b, redistest.Options{})
	store := redisStore(b, server)
	defer store.Close()
	for _, a := range algorithm.All {
		for _, kept := range keptToMeasure(a) {
			for _, batch := range []int{1, 50} {
				b.Run(fmt.Sprintf("%s/kept=%d/batch=%d", a.Name, kept, batch), func(b *testing.B) {
					server.Do(b, "flushall")
					asks := asksFor(b, a, algorithm.MaxLogRequests, 200, kept)
					decideAll(b, store, asks, batch)
					for i := range asks {
						asks[i].Hits = 1
					}
					cpu := func() float64 { return told(b, server, "used_cpu_user") + told(b, server, "used_cpu_sys") }
					before, n := cpu(), 0
					for b.Loop() {
						from := n % (len(asks) - batch + 1)
						decideAll(b, store, asks[from:from+batch], batch)
						n += batch
					}
					b.ReportMetric((cpu()-before)*1e6/float64(n), "redis-µs/decision")
				})
			}
		}
	}
}

// keptToMeasure are how many requests counters hold beforehand. The log's limit leaves room for those of the benchmark.
func keptToMeasure(a *algorithm.Algorithm) []int64 {
	if a == algorithm.SlidingWindowLog {
		return []int64{100, algorithm.MaxLogRequests - 1000}
	}
	return []int64{1}
}
