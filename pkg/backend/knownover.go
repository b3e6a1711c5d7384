package backend

import (
	"bytes"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// DefaultKnownKeys is how many keys a [KnownOver] remembers when its options do
// not say: about 20 MB of them.
const DefaultKnownKeys = 65_536

// maxKnown is how long a key is refused without asking.
const maxKnown = time.Second

// KnownOverOptions are the settings of a [KnownOver]. The zero value is usable.
type KnownOverOptions struct {
	// MaxKeys bounds how many keys are remembered; 0 is DefaultKnownKeys. When
	// there are more, the store is asked for the others.
	MaxKeys int

	// Reference refuses asks with other than Precise counting too, which are then
	// charged nothing: for who would rather ask the store less than count what is
	// denied, as envoyproxy/ratelimit does with its local cache.
	Reference bool

	// Registerer takes the metrics; nil keeps them unregistered.
	Registerer prometheus.Registerer
}

// KnownOver remembers for a moment which keys are over their limit, and refuses
// them without asking the store.
//
// A key is refused for its retry-after, and for a second at most, counted from
// the instant at which the store was asked: until then the store would have
// refused the same cost too, unless hits were given back by another process,
// the counter was lost, or its clock stepped. Those are noticed a second late at
// most. Hits given back through this KnownOver are noticed at once, and so is
// another limit. A cost below the refused one is asked of the store.
//
// The rest of a request is decided as if the store had refused it: other limits
// are shown as they stand, with their own verdicts; shadow limits, forced charges
// and the like are charged; of several quotas the others may still do.
//
// Only asks with Precise counting are refused, since by the others also denied
// hits are charged, but see the options; and none of a limit with overdraw, for
// the same reason.
type KnownOver struct {
	next      decider
	known     *knownKeys
	reference bool
	scratch   sync.Pool // *remainder
	refused   prometheus.Counter
	lookups   atomic.Uint64 // of what does not give hits back
	hits      atomic.Uint64
}

// KnownOverStats tell how a [KnownOver] was used since it was made. What was
// looked up and no hit was asked of the store.
type KnownOverStats struct {
	Keys          int    // remembered now, also what is not worth knowing any more
	Lookups, Hits uint64 // asks, and those of them that were refused
	Expired       uint64 // keys dropped for their age
	Overwritten   uint64 // denials that took the place of an older one
	WithoutRoom   uint64 // denials not remembered for want of room
}

// Stats returns how it was used until now.
func (k *KnownOver) Stats() KnownOverStats {
	s := k.known.stats()
	s.Hits = k.hits.Load() // first: a hit was looked up before
	s.Lookups = k.lookups.Load()
	return s
}

// WithKnownOver stacks the memory on a store.
func WithKnownOver(next decider, o KnownOverOptions) *KnownOver {
	if o.MaxKeys <= 0 {
		o.MaxKeys = DefaultKnownKeys
	}
	return &KnownOver{
		next: next, known: newKnownKeys(o.MaxKeys), reference: o.Reference,
		scratch: sync.Pool{New: func() any { return new(remainder) }},
		refused: promauto.With(o.Registerer).NewCounter(prometheus.CounterOpts{
			Name: "ratelimitd_known_over_total",
			Help: "Decisions to deny that were made without asking the store, since it had denied the same a moment before.",
		}),
	}
}

// Decide refuses what is known to be over and asks the store for the rest.
func (k *KnownOver) Decide(ctx context.Context, asks []algorithm.Ask, out []algorithm.Decision) {
	out = out[:len(asks)]
	now := time.Now()
	lookups := uint64(len(asks))
	for i := range asks {
		if asks[i].Mode == algorithm.GiveBack {
			k.known.forget(asks[i].Key, now)
			lookups--
		}
	}
	k.lookups.Add(lookups)
	rest := k.scratch.Get().(*remainder)
	refused := 0
	if !k.known.empty() {
		refused = rest.refuse(k, now, asks, out)
	}
	if refused == 0 {
		k.next.Decide(ctx, asks, out)
		k.learn(now, asks, out)
	} else {
		k.refused.Add(float64(refused))
		k.hits.Add(uint64(refused))
		if rest.collect(asks); len(rest.asks) > 0 {
			k.next.Decide(ctx, rest.asks, rest.out)
			k.learn(now, rest.asks, rest.out)
			rest.deliver(out)
		}
	}
	rest.forget()
	k.scratch.Put(rest)
}

// learn remembers what the store, asked at an instant, has denied.
func (k *KnownOver) learn(asked time.Time, asks []algorithm.Ask, out []algorithm.Decision) {
	for i := range out {
		a, d := &asks[i], &out[i]
		switch {
		case a.Mode == algorithm.GiveBack:
			k.known.forget(a.Key, time.Now())
		case d.Outcome == algorithm.Denied && !d.Degraded && k.refusable(a) && !judgedBefore(asks, i):
			k.known.add(asked, a, d)
		}
	}
}

// refusable reports whether an ask that does not fit is charged nothing, or need
// not be.
func (k *KnownOver) refusable(a *algorithm.Ask) bool {
	return a.Mode == algorithm.Charge && (a.Counting == algorithm.Precise || k.reference) && a.Hits > 0 && !a.Limit.Overdraw
}

// judgedBefore reports whether the key of ask i was judged before in the same
// request: then it was judged by what that left, had it been charged. It looks
// back only so far, and takes the rest of a request of thousands for judged.
func judgedBefore(asks []algorithm.Ask, i int) bool {
	const far = 64
	for j := i - 1; j >= 0 && asks[j].Group == asks[i].Group; j-- {
		if i-j > far || bytes.Equal(asks[j].Key, asks[i].Key) {
			return true
		}
	}
	return false
}

// remainder is what is left of a batch to ask the store for.
type remainder struct {
	refused []bool // of each ask of the batch
	subset
}

// refuse decides the asks that are known to be over, and returns how many.
func (r *remainder) refuse(k *KnownOver, now time.Time, asks []algorithm.Ask, out []algorithm.Decision) int {
	r.refused = append(r.refused[:0], make([]bool, len(asks))...)
	n := 0
	for i := range asks {
		if k.refusable(&asks[i]) && k.known.over(now, &asks[i], &out[i]) {
			r.refused[i] = true
			n++
		}
	}
	return n
}

// collect gathers the asks that were not refused.
func (r *remainder) collect(asks []algorithm.Ask) {
	group := int32(0)
	for from, to := range groups(asks) {
		withheld := r.denies(asks, from, to)
		group++
		for i := from; i < to; i++ {
			if r.refused[i] {
				continue
			}
			picked := r.add(&asks[i], i)
			picked.Group, picked.Withheld = group, picked.Withheld || withheld
		}
	}
	r.seal()
}

// denies reports whether a request does not pass for what was refused of it.
func (r *remainder) denies(asks []algorithm.Ask, from, to int) bool {
	quotas, open := 0, 0
	for i := from; i < to; i++ {
		switch {
		case asks[i].Vetoes() && r.refused[i]:
			return true
		case asks[i].OneOfQuotas():
			quotas++
			if !r.refused[i] {
				open++
			}
		}
	}
	return quotas > 0 && open == 0
}

// forget drops references, so that a pooled remainder keeps no key alive.
func (r *remainder) forget() {
	if cap(r.refused) > 8192 {
		r.refused = nil
	}
	r.subset.forget()
}
