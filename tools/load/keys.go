package main

import (
	"context"
	"log/slog"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
	"github.com/ratelimitd/ratelimitd/pkg/backend"
	"github.com/ratelimitd/ratelimitd/pkg/descriptors"
)

// keySize is the memory that a counter takes, its name included.
type keySize struct {
	Algorithm string  `json:"algorithm"` // plainCounter: what a program without algorithms would keep
	Name      float64 `json:"name_bytes"`
	Memory    float64 `json:"memory_bytes"` // in the memory store; 0: not measured
	Redis     float64 `json:"redis_bytes"`
}

// plainCounter is a number that expires, under the same names.
const plainCounter = "a number that expires"

// batchOfKeys is how many counters are asked for at a time.
const batchOfKeys = 256

// decider is a store.
type decider interface {
	Decide(ctx context.Context, asks []algorithm.Ask, out []algorithm.Decision)
}

// measureKeys fills stores with counters of each algorithm, each hit once, and
// tells their size.
func (b *bench) measureKeys(ctx context.Context) ([]*keySize, error) {
	n := b.options.keys
	if n == 0 {
		return nil, nil
	}
	server := backend.RedisServer{Addresses: []string{b.redis.address}}
	client := redis.NewClient(&redis.Options{Addr: b.redis.address, Protocol: 2, DisableIdentity: true, ReadTimeout: time.Minute})
	defer client.Close()
	store, err := backend.NewRedis(backend.RedisOptions{Server: server, ReadTimeout: time.Minute, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	defer store.Close()
	var sizes []*keySize
	for _, a := range algorithm.All {
		progress("%d counters of %s", n, a.Name)
		f, err := newFilling(a.Name, n)
		if err != nil {
			return nil, err
		}
		size := &keySize{Algorithm: a.Name, Name: f.nameLength()}
		if size.Memory, err = f.inMemory(ctx); err != nil {
			return nil, err
		}
		if err := f.first(ctx, store); err != nil {
			return nil, err
		}
		if size.Redis, err = growth(ctx, client, n, func() error { return f.fill(ctx, store) }); err != nil {
			return nil, err
		}
		sizes = append(sizes, size)
	}
	progress("%d plain numbers", n)
	f, err := newFilling(algorithm.FixedWindow.Name, n)
	if err != nil {
		return nil, err
	}
	size := &keySize{Algorithm: plainCounter, Name: f.nameLength()}
	size.Redis, err = growth(ctx, client, n, func() error { return f.plain(ctx, client) })
	return append(sizes, size), err
}

// growth empties Redis and returns by how much its memory grows for each of n
// counters.
func growth(ctx context.Context, client *redis.Client, n int, fill func() error) (float64, error) {
	if err := client.FlushAll(ctx).Err(); err != nil {
		return 0, err
	}
	before, err := usedMemory(ctx, client)
	if err != nil {
		return 0, err
	}
	if err := fill(); err != nil {
		return 0, err
	}
	after, err := usedMemory(ctx, client)
	return (after - before) / float64(n), err
}

func usedMemory(ctx context.Context, client *redis.Client) (float64, error) {
	info, err := client.Info(ctx, "memory").Result()
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(info, "used_memory:")
	number, _, _ := strings.Cut(rest, "\r")
	return strconv.ParseFloat(number, 64)
}

// filling is a number of counters of one limit.
type filling struct {
	limit *descriptors.Limit
	n     int
}

func newFilling(algorithm string, n int) (*filling, error) {
	rules, err := compile(algorithm)
	if err != nil {
		return nil, err
	}
	return &filling{rules.Domain([]byte(domain)).Match(entries(0, n)).Limits[0], n}, nil
}

func entries(i, n int) []descriptors.Entry {
	return []descriptors.Entry{{Key: []byte(usual), Value: []byte(value(i, n))}}
}

// nameLength is the mean length of the counters' names.
func (f *filling) nameLength() float64 {
	total, name := 0, []byte(nil)
	for i := range f.n {
		name = f.limit.AppendKey(name[:0], entries(i, f.n))
		total += len(name)
	}
	return float64(total) / float64(f.n)
}

// fill asks a store once for each counter.
func (f *filling) fill(ctx context.Context, store decider) error {
	asks, out := make([]algorithm.Ask, batchOfKeys), make([]algorithm.Decision, batchOfKeys)
	for first := 0; first < f.n; first += batchOfKeys {
		batch := asks[:min(batchOfKeys, f.n-first)]
		for i := range batch {
			key := f.limit.AppendKey(batch[i].Key[:0], entries(first+i, f.n))
			batch[i] = algorithm.Ask{Key: key, Limit: f.limit.Limit, Hits: 1, Group: int32(i)}
		}
		store.Decide(ctx, batch, out)
		for i := range batch {
			if out[i].Outcome != algorithm.Allowed {
				return out[i].Err
			}
		}
	}
	return ctx.Err()
}

// first asks a store for a few counters, so that it has what it needs besides:
// Redis, the script.
func (f *filling) first(ctx context.Context, store decider) error {
	few := *f
	few.n = min(f.n, batchOfKeys)
	return few.fill(ctx, store)
}

// inMemory returns the memory that each counter takes in the memory store.
func (f *filling) inMemory(ctx context.Context) (float64, error) {
	before := heap()
	store := backend.NewMemory(backend.MemoryOptions{MaxKeys: 2 * f.n})
	defer store.Close()
	if err := f.fill(ctx, store); err != nil {
		return 0, err
	}
	size := (heap() - before) / float64(f.n)
	runtime.KeepAlive(store)
	return size, nil
}

// heap is the memory that is in use.
func heap() float64 {
	runtime.GC()
	runtime.GC() // what finalizers held is gone only now
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return float64(stats.HeapAlloc)
}

// plain writes a number under the name of each counter.
func (f *filling) plain(ctx context.Context, client *redis.Client) error {
	var name []byte
	for first := 0; first < f.n; first += batchOfKeys {
		pipe := client.Pipeline()
		for i := first; i < min(f.n, first+batchOfKeys); i++ {
			name = f.limit.AppendKey(name[:0], entries(i, f.n))
			pipe.SetEx(ctx, string(name), 1, time.Hour)
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return err
		}
	}
	return nil
}
