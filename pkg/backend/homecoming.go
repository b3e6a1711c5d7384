package backend

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

const (
	// homeEvery is how often it is tried to bring counts home while there are
	// any. A part of the store that does not answer is tried more and more
	// rarely, every homeAtLeast in the end.
	homeEvery   = 100 * time.Millisecond
	homeAtLeast = 400 * time.Millisecond

	// homeBatch is how many keys come home in one call, homePause the time
	// between two calls, and homeTimeout how long the store may take for one.
	homeBatch   = 256
	homePause   = 10 * time.Millisecond
	homeTimeout = 200 * time.Millisecond

	// homeAtEnd is how long it is tried when the process ends.
	homeAtEnd = time.Second
)

// homecoming charges to a store, when it decides again, what a process has
// admitted in its place and what still counts by then, so that an outage is no
// free refill.
//
// What is held of a key is taken out of the memory and charged by one ask in
// Forced mode: it may happen to it once, for each outage of the key. If the store
// surely did not charge it, it is put back; if that is not sure, as after a
// time-out, it is lost. Whatever is admitted locally from then on begins with a
// fresh state and comes home by itself.
//
// Before, the store is asked for a key of the same hash tag that nobody uses, by
// a look. It is the same server that answers for all keys of a tag.
type homecoming struct {
	memory        *Memory
	store         decider
	look          *algorithm.Limit // to ask by
	away          tags             // that have states in memory
	charged, lost prometheus.Counter

	answered bool // the last time that the store was asked; of the goroutine
	stop     context.CancelFunc
	stopped  chan struct{}
}

func newHomecoming(memory *Memory, store decider, reg prometheus.Registerer) *homecoming {
	look, err := algorithm.NewLimit(algorithm.Spec{Requests: 1, Window: time.Second})
	if err != nil {
		panic("backend: " + err.Error()) // a bug, found by every test
	}
	hits := promauto.With(reg).NewCounterVec(prometheus.CounterOpts{
		Name: "ratelimitd_local_hits_home_total",
		Help: "Hits that on_store_error local had admitted and that still counted when Redis was back: charged to it, or lost, for it did not say whether it charged them.",
	}, []string{"result"})
	ctx, cancel := context.WithCancel(context.Background())
	h := &homecoming{
		memory: memory, store: store, look: look, away: newTags(),
		charged: hits.WithLabelValues("charged"), lost: hits.WithLabelValues("lost"),
		stop: cancel, stopped: make(chan struct{}),
	}
	go h.run(ctx)
	return h
}

// close ends the goroutine, after a last try.
func (h *homecoming) close() {
	h.stop()
	<-h.stopped
}

func (h *homecoming) run(ctx context.Context) {
	defer close(h.stopped)
	for {
		select {
		case <-ctx.Done():
		case <-h.away.added:
		}
		for !h.away.empty() && sleep(ctx, homeEvery) {
			h.try(ctx, h.away.due(time.Now()))
		}
		if ctx.Err() != nil {
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), homeAtEnd)
			defer cancel()
			h.answered = true
			h.try(last, h.away.due(time.Now().Add(homeAtLeast)))
			return
		}
	}
}

// try brings home what the store decides again of the tags. While it decides
// nothing it is asked for one of them.
func (h *homecoming) try(ctx context.Context, due []string) {
	for len(due) > 0 {
		n := min(homeBatch, len(due))
		if !h.answered {
			n = 1
		}
		there := h.answers(ctx, due[:n])
		if h.answered = len(there) > 0; h.answered {
			h.bring(ctx, there)
		}
		for _, tag := range due[:n] {
			if !there[tag] {
				h.away.later(tag, time.Now())
			}
		}
		if !h.answered {
			return
		}
		due = due[n:]
	}
}

// answers returns the tags for which the store decides.
func (h *homecoming) answers(ctx context.Context, some []string) map[string]bool {
	asks := make([]algorithm.Ask, len(some))
	for i, tag := range some {
		asks[i] = algorithm.Ask{Key: []byte("{" + tag + "}"), Limit: h.look, Group: int32(i)}
	}
	there := make(map[string]bool)
	for i, d := range h.ask(ctx, asks) {
		if decided(&d) {
			there[some[i]] = true
		}
	}
	return there
}

// ask asks the store, within the time that it has, also when the process ends
// meanwhile: what is on its way would be lost.
func (h *homecoming) ask(ctx context.Context, asks []algorithm.Ask) []algorithm.Decision {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), homeTimeout)
	defer cancel()
	out := make([]algorithm.Decision, len(asks))
	h.store.Decide(ctx, asks, out)
	return out
}

// decided reports whether the store itself has decided.
func decided(d *algorithm.Decision) bool { return d.Outcome != algorithm.Undecided && !d.Degraded }

// bring brings home what is held of keys with the tags. Those for which the store
// turns out not to decide any more it takes away from them, to be looked for anew.
func (h *homecoming) bring(ctx context.Context, there map[string]bool) {
	for tag := range there {
		h.away.remove(tag) // first: who adds it from now on has something more
	}
	of := func(key string) bool { return there[hashTag(key)] }
	for shard := 0; ; {
		var some []taken
		if some, shard = h.memory.take(shard, homeBatch, of); len(some) == 0 {
			return
		}
		h.charge(ctx, some, there)
		if !sleep(ctx, homePause) {
			for tag := range there {
				h.away.add([]byte("{" + tag + "}")) // for the last try
			}
			return
		}
	}
}

// charge charges what was taken out of the memory, at most once.
func (h *homecoming) charge(ctx context.Context, some []taken, there map[string]bool) {
	var asks []algorithm.Ask
	var of []*taken
	for i := range some {
		if some[i].used == 0 {
			continue // all of it has come to be free
		}
		of = append(of, &some[i])
		asks = append(asks, algorithm.Ask{
			Key: []byte(some[i].key), Limit: some[i].limit.Whole(), Hits: some[i].used, Mode: algorithm.Forced, Group: int32(i),
		})
	}
	if len(asks) == 0 {
		return
	}
	for i, d := range h.ask(ctx, asks) {
		hits := float64(of[i].used)
		if decided(&d) {
			h.charged.Add(hits)
			continue
		}
		delete(there, hashTag(of[i].key))
		h.away.add(asks[i].Key) // the rest of it is still here
		if !chargedNothing(&d) || !h.putBack(of[i]) {
			h.lost.Add(hits)
		}
	}
}

// chargedNothing reports whether what the store did not decide has surely not
// been charged.
func chargedNothing(d *algorithm.Decision) bool {
	return d.Err != nil && !errors.Is(d.Err, ErrTimeout) && !errors.Is(d.Err, ErrLost)
}

// putBack adds what was taken to what is held by now, and reports whether there
// was room.
func (h *homecoming) putBack(t *taken) bool {
	ask := []algorithm.Ask{{Key: []byte(t.key), Limit: t.limit, Hits: t.used, Mode: algorithm.Forced}}
	var out [1]algorithm.Decision
	h.memory.Decide(context.Background(), ask, out[:])
	return out[0].Outcome != algorithm.Undecided
}

// maxTags bounds how many tags are known. Counter keys have 256.
const maxTags = 4096

// tags are hash tags of keys, each with the time from which on the store may be
// asked for it. It is safe for concurrent use.
type tags struct {
	added chan struct{} // takes a value when there is one

	mu    sync.RWMutex // protects what follows
	known map[string]*nextTry
}

type nextTry struct {
	at   time.Time
	wait time.Duration
}

func newTags() tags {
	return tags{added: make(chan struct{}, 1), known: make(map[string]*nextTry)}
}

// add adds the tag of a key.
func (t *tags) add(key []byte) {
	tag := hashTag(key)
	t.mu.RLock()
	_, known := t.known[string(tag)]
	t.mu.RUnlock()
	if known {
		return
	}
	t.mu.Lock()
	if len(t.known) < maxTags {
		t.known[string(tag)] = new(nextTry)
	}
	t.mu.Unlock()
	select {
	case t.added <- struct{}{}:
	default:
	}
}

func (t *tags) empty() bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.known) == 0
}

func (t *tags) remove(tag string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.known, tag)
}

// due returns the tags for which the store may be asked at an instant.
func (t *tags) due(now time.Time) []string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	var due []string
	for tag, next := range t.known {
		if !now.Before(next.at) {
			due = append(due, tag)
		}
	}
	return due
}

// later puts a tag off for which the store did not answer.
func (t *tags) later(tag string, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if next := t.known[tag]; next != nil {
		next.wait = min(homeAtLeast, max(homeEvery, 2*next.wait))
		next.at = now.Add(next.wait)
	}
}
