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
// Before, the store is asked for a key of the same [part] that nobody uses, by a
// look.
type homecoming struct {
	memory        *Memory
	store         decider
	look          map[bool]*algorithm.Limit // to ask by: per second, or not
	away          parts                     // that have states in memory
	charged, lost prometheus.Counter

	answered bool // the last time that the store was asked; of the goroutine
	stop     context.CancelFunc
	stopped  chan struct{}
}

func newHomecoming(memory *Memory, store decider, reg prometheus.Registerer) *homecoming {
	hits := promauto.With(reg).NewCounterVec(prometheus.CounterOpts{
		Name: "ratelimitd_local_hits_home_total",
		Help: "Hits that on_store_error local had admitted and that still counted when Redis was back: charged to it, or lost, for it did not say whether it charged them.",
	}, []string{"result"})
	ctx, cancel := context.WithCancel(context.Background())
	h := &homecoming{
		memory: memory, store: store, look: map[bool]*algorithm.Limit{true: lookBy(time.Second), false: lookBy(time.Minute)}, away: newParts(),
		charged: hits.WithLabelValues("charged"), lost: hits.WithLabelValues("lost"),
		stop: cancel, stopped: make(chan struct{}),
	}
	go h.run(ctx)
	return h
}

// lookBy returns a limit to look by, of a window.
func lookBy(window time.Duration) *algorithm.Limit {
	l, err := algorithm.NewLimit(algorithm.Spec{Requests: 1, Window: window})
	if err != nil {
		panic("backend: " + err.Error()) // a bug, found by every test
	}
	return l
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

// try brings home what the store decides again of its parts. While it decides
// nothing it is asked for one of them.
func (h *homecoming) try(ctx context.Context, due []part) {
	for len(due) > 0 {
		n := min(homeBatch, len(due))
		if !h.answered {
			n = 1
		}
		there := h.answers(ctx, due[:n])
		if h.answered = len(there) > 0; h.answered {
			h.bring(ctx, there)
		}
		for _, p := range due[:n] {
			if !there[p] {
				h.away.later(p, time.Now())
			}
		}
		if !h.answered {
			return
		}
		due = due[n:]
	}
}

// answers returns the parts for which the store decides.
func (h *homecoming) answers(ctx context.Context, some []part) map[part]bool {
	asks := make([]algorithm.Ask, len(some))
	for i, p := range some {
		asks[i] = algorithm.Ask{Key: []byte("{" + p.tag + "}"), Limit: h.look[p.perSecond], Group: int32(i)}
	}
	there := make(map[part]bool)
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

// bring brings home what is held of keys in the parts. Those for which the store
// turns out not to decide any more it takes away from them, to be looked for anew.
func (h *homecoming) bring(ctx context.Context, there map[part]bool) {
	for p := range there {
		h.away.remove(p) // first: who adds it from now on has something more
	}
	of := func(key string, l *algorithm.Limit) bool { return there[part{hashTag(key), isPerSecond(l)}] }
	for shard := 0; ; {
		var some []taken
		if some, shard = h.memory.take(shard, homeBatch, of); len(some) == 0 {
			return
		}
		h.charge(ctx, some, there)
		if !sleep(ctx, homePause) {
			for p := range there {
				h.away.add([]byte("{"+p.tag+"}"), h.look[p.perSecond]) // for the last try
			}
			return
		}
	}
}

// charge charges what was taken out of the memory, at most once.
func (h *homecoming) charge(ctx context.Context, some []taken, there map[part]bool) {
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
		delete(there, part{hashTag(of[i].key), isPerSecond(of[i].limit)})
		h.away.add(asks[i].Key, of[i].limit) // the rest of it is still here
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

// part is what one server of a store answers for: the keys of a hash tag, and of
// those the ones of limits per second, or the others.
type part struct {
	tag       string
	perSecond bool
}

// maxParts bounds how many parts are known. Counter keys have 256 tags.
const maxParts = 4096

// parts are parts of a store, each with the time from which on it may be asked
// for it. They are safe for concurrent use.
type parts struct {
	added chan struct{} // takes a value when there is one

	mu    sync.RWMutex // protects what follows
	known map[part]*nextTry
}

type nextTry struct {
	at   time.Time
	wait time.Duration
}

func newParts() parts {
	return parts{added: make(chan struct{}, 1), known: make(map[part]*nextTry)}
}

// add adds the part of a key.
func (p *parts) add(key []byte, l *algorithm.Limit) {
	tag := hashTag(key)
	p.mu.RLock()
	_, known := p.known[part{string(tag), isPerSecond(l)}]
	p.mu.RUnlock()
	if known {
		return
	}
	p.mu.Lock()
	if len(p.known) < maxParts {
		p.known[part{string(tag), isPerSecond(l)}] = new(nextTry)
	}
	p.mu.Unlock()
	select {
	case p.added <- struct{}{}:
	default:
	}
}

func (p *parts) empty() bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return len(p.known) == 0
}

func (p *parts) remove(it part) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.known, it)
}

// due returns the parts for which the store may be asked at an instant.
func (p *parts) due(now time.Time) []part {
	p.mu.RLock()
	defer p.mu.RUnlock()
	var due []part
	for it, next := range p.known {
		if !now.Before(next.at) {
			due = append(due, it)
		}
	}
	return due
}

// later puts a part off for which the store did not answer.
func (p *parts) later(it part, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if next := p.known[it]; next != nil {
		next.wait = min(homeAtLeast, max(homeEvery, 2*next.wait))
		next.at = now.Add(next.wait)
	}
}
