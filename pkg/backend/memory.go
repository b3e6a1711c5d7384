package backend

import (
	"context"
	"hash/maphash"
	"log/slog"
	"math/bits"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

const (
	// DefaultMaxKeys is how many keys a [Memory] holds when its options do not
	// say: about 200 MB of them.
	DefaultMaxKeys = 1_000_000

	// maxShards is at most 64, so that a set of shards fits a word.
	maxShards = 64

	// keysPerShard is the least worth a shard of its own.
	keysPerShard = 1024

	// tidyEvery is how often expired keys are looked for when no request
	// does it, and tidySteps how many are dropped at once in each shard.
	tidyEvery = 100 * time.Millisecond
	tidySteps = 128

	// idleFor is how long, in microseconds, a key has expired before a request
	// drops it: one that is asked for again soon need not be made anew.
	idleFor = 1_000_000
)

// MemoryOptions are the settings of a [Memory]. The zero value is usable.
type MemoryOptions struct {
	// MaxKeys bounds how many keys are held; 0 is DefaultMaxKeys. The bound
	// is kept in each of up to 64 parts, over which keys are spread by hash.
	MaxKeys int

	// MaxBytes bounds the memory that keys and their states take, roughly;
	// 0 is no bound but MaxKeys. It matters for sliding_window_log, whose
	// states grow with the limit.
	MaxBytes int64

	// Registerer takes the metrics; nil keeps them unregistered.
	Registerer prometheus.Registerer

	// Log takes a line, at most one in ten seconds, when live keys are
	// dropped for want of room; nil is slog.Default.
	Log *slog.Logger
}

// Memory is a store in this process. When it is full it drops states that have
// expired, then those nearest to "never seen", and never one that is denying;
// when all are denying, new keys are Undecided with [ErrFull].
type Memory struct {
	seed    maphash.Seed
	shards  []*shard
	metrics *memoryMetrics
	dropped *sparingLog
	scratch sync.Pool // *scratch
	stop    func()
	stopped chan struct{}
}

// NewMemory returns an empty store. Close it to end the goroutine that drops
// expired keys.
func NewMemory(o MemoryOptions) *Memory {
	if o.MaxKeys <= 0 {
		o.MaxKeys = DefaultMaxKeys
	}
	count := 1
	for count < maxShards && count*2*keysPerShard <= o.MaxKeys {
		count *= 2
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := &Memory{
		seed:    maphash.MakeSeed(),
		dropped: newSparingLog(o.Log, 10*time.Second),
		scratch: sync.Pool{New: func() any { return new(scratch) }},
		stop:    cancel,
		stopped: make(chan struct{}),
	}
	hash := func(key string) uint64 { return maphash.String(m.seed, key) }
	for i := range count {
		m.shards = append(m.shards, newShard(hash, share(int64(o.MaxKeys), count, i), share(o.MaxBytes, count, i)))
	}
	m.metrics = newMemoryMetrics(o.Registerer, m.Keys)
	go m.tidyUntil(ctx)
	return m
}

// share is the i-th of n parts of a whole.
func share(whole int64, n, i int) int64 {
	part := whole / int64(n)
	if int64(i) < whole%int64(n) {
		part++
	}
	return part
}

// Close ends the store's goroutine. The store may still be asked.
func (m *Memory) Close() {
	m.stop()
	<-m.stopped
}

// Keys returns how many keys the store holds.
func (m *Memory) Keys() int {
	n := 0
	for _, s := range m.shards {
		s.mu.Lock()
		n += s.entries.len()
		s.mu.Unlock()
	}
	return n
}

// Decide decides the asks, the requests among them one after another. It does
// not wait, so that the context does not matter.
func (m *Memory) Decide(_ context.Context, asks []algorithm.Ask, out []algorithm.Decision) {
	began := time.Now()
	now := began.UnixMicro()
	sc := m.scratch.Get().(*scratch)
	for from, to := range groups(asks) {
		m.decideGroup(sc, now, asks[from:to], out[from:to])
	}
	sc.forget()
	m.scratch.Put(sc)
	m.metrics.duration.Observe(time.Since(began).Seconds())
}

// neverWaits tells a [FailurePolicy] that no call takes long enough to be ended.
func (m *Memory) neverWaits() bool { return true }

// decideGroup decides one request under the locks of all shards it touches.
func (m *Memory) decideGroup(sc *scratch, now int64, asks []algorithm.Ask, out []algorithm.Decision) {
	sc.begin(len(asks))
	var touched uint64
	for i := range asks {
		sc.hashes[i] = maphash.Bytes(m.seed, asks[i].Key)
		sc.shards[i] = uint8(sc.hashes[i] >> 48 % uint64(len(m.shards)))
		touched |= 1 << sc.shards[i]
	}
	m.lock(touched)
	defer m.unlock(touched)
	for set := touched; set != 0; set &= set - 1 {
		m.shards[bits.TrailingZeros64(set)].tidy(now-idleFor, 2)
	}
	sc.find(m.shards, asks)
	if !m.makeRoom(sc, now, touched) {
		sc.putBack(m.shards)
		fail(out, ErrFull)
		m.metrics.failures.add(ErrFull, 1)
		return
	}
	algorithm.Decide(now, asks, sc.states, out)
	sc.keep(m.shards, now, asks, out)
	m.slim(now, touched)
}

// makeRoom sees to it that every shard has room for the keys of the request
// that are new, and reports whether it could.
func (m *Memory) makeRoom(sc *scratch, now int64, touched uint64) bool {
	if len(sc.fresh) == 0 {
		return true
	}
	for set := touched; set != 0; set &= set - 1 {
		i := bits.TrailingZeros64(set)
		s, wanted := m.shards[i], sc.freshIn(uint8(i))
		if s.hasRoom(wanted) {
			continue
		}
		sc.lift(s, uint8(i))
		live, ok := s.makeRoom(now, wanted)
		m.evicted(live)
		if !ok {
			return false
		}
	}
	return true
}

// slim drops keys where the request has made logs grow past the bound on bytes.
func (m *Memory) slim(now int64, touched uint64) {
	for set := touched; set != 0; set &= set - 1 {
		if s := m.shards[bits.TrailingZeros64(set)]; s.overweight() {
			live, _ := s.makeRoom(now, 0) // what is left then is denying, and stays
			m.evicted(live)
		}
	}
}

// evicted reports that live keys were dropped.
func (m *Memory) evicted(live int) {
	if live > 0 {
		m.metrics.evicted.Add(float64(live))
		m.dropped.Warn("the memory store is full: dropped counters that were in use", "keys", live)
	}
}

// lock takes the locks of a set of shards, always in the same order.
func (m *Memory) lock(set uint64) {
	for ; set != 0; set &= set - 1 {
		m.shards[bits.TrailingZeros64(set)].mu.Lock()
	}
}

func (m *Memory) unlock(set uint64) {
	for ; set != 0; set &= set - 1 {
		m.shards[bits.TrailingZeros64(set)].mu.Unlock()
	}
}

// tidyUntil drops expired keys now and then, a few at a time, so that also a
// store that nobody asks lets go of them.
func (m *Memory) tidyUntil(ctx context.Context) {
	defer close(m.stopped)
	ticker := time.NewTicker(tidyEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := time.Now().UnixMicro()
		for _, s := range m.shards {
			s.mu.Lock()
			s.tidy(now, tidySteps)
			s.mu.Unlock()
		}
	}
}
