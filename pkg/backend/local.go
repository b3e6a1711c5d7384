package backend

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// DefaultLocalBytes is how much memory the counters of a [Local] take when its
// options do not say: some 250,000 of them.
const DefaultLocalBytes = 64 << 20

// LocalOptions are the settings of a [Local]. The zero value is usable.
type LocalOptions struct {
	// MaxBytes bounds the memory that counters take, roughly; 0 is
	// DefaultLocalBytes. What then goes first is told at [Memory].
	MaxBytes int64

	// Replicas tells among how many processes a limit is shared out, each time
	// that something is decided; nil is one.
	Replicas func() int

	// Registerer takes the metrics; nil keeps them unregistered.
	Registerer prometheus.Registerer

	// Log takes a line when counters are dropped for want of room; nil is
	// slog.Default.
	Log *slog.Logger
}

// Local decides in this process, by its share of the limit, what a store did not
// decide: see [algorithm.Limit.Share]. Its states live in a [Memory], so that it
// decides as a store in this process would.
//
// What it has admitted, and still counts when the store decides again, is then
// charged to the store in the background: within half a second of the first
// success, and then some 20,000 keys a second. An outage of a key lasts from the
// first local decision on it until that.
//
// So in an outage n processes admit together what one store would that had the
// limit, or 1 for each process where that is more: besides what the real one has
// admitted before and within the same window. That is the bound: in any window,
// or from a bucket at once, at most the limit too many for each outage that
// touches it, be it of one time-out; where they take n for less than it is, the
// more. Of what is too many all comes off what is admitted later by a bucket, and
// by a window what it still counts. What a call of the store that timed out has
// charged nonetheless is charged twice then.
type Local struct {
	memory   *Memory
	home     *homecoming
	replicas func() int
	shares   shares
	scratch  sync.Pool // *subset
	returns  *returns
}

// NewLocal returns a Local that holds nothing yet, for what a store does not
// decide. Close it to end its goroutines.
func NewLocal(store decider, o LocalOptions) *Local {
	o.MaxBytes = cmp.Or(max(0, o.MaxBytes), DefaultLocalBytes)
	if o.Replicas == nil {
		o.Replicas = func() int { return 1 }
	}
	memory := NewMemory(MemoryOptions{
		MaxKeys: int(o.MaxBytes / (entryOverhead + usualKey)), MaxBytes: o.MaxBytes, Registerer: o.Registerer, Log: o.Log,
	})
	return &Local{
		memory:   memory,
		home:     newHomecoming(memory, store, o.Registerer),
		replicas: o.Replicas,
		scratch:  sync.Pool{New: func() any { return new(subset) }},
		returns:  newReturns(homeTimeout, newUndos(o.Registerer, "local"), newSparingLog(o.Log, time.Second)),
	}
}

// usualKey is about how many bytes a key has.
const usualKey = 100

// Close ends the goroutines. What is held is charged to the store if it decides
// by now, and else is lost. Nothing may be decided afterwards.
func (l *Local) Close() {
	l.returns.close()
	l.home.close()
	l.memory.Close()
}

// decide decides the asks whose policy is FailLocal and that the store, asked at an
// instant, left Undecided, and returns how many. Those of one request are decided together. A request whose
// caller has gone stays as it is.
func (l *Local) decide(asked time.Time, asks []algorithm.Ask, out []algorithm.Decision) int {
	here, replicas := l.scratch.Get().(*subset), l.replicas()
	for from, to := range groups(asks) {
		if !abandoned(&asks[from]) {
			l.pick(here, replicas, asks, out, from, to)
		}
	}
	here.seal()
	if len(here.asks) == 0 {
		l.scratch.Put(here)
		return 0
	}
	l.memory.Decide(context.Background(), here.asks, here.out)
	decided := 0
	for i := range here.out {
		d := &here.out[i]
		if d.Outcome != algorithm.Undecided {
			decided++
			l.home.away.add(here.asks[i].Key, here.asks[i].Limit) // not before it is decided: see bring
			d.Degraded = true
			d.Never = d.Never && here.asks[i].Hits > here.asks[i].Limit.Whole().Capacity
		}
	}
	here.deliver(out)
	here.forget()
	l.scratch.Put(here)
	if decided < len(asks) {
		l.returnCharges(asked, asks, out)
	}
	return decided
}

// local reports whether an ask is to be decided here.
func local(a *algorithm.Ask, d *algorithm.Decision) bool {
	return d.Outcome == algorithm.Undecided && a.OnStoreError == algorithm.FailLocal
}

// pick adds those of a request's asks that are to be decided here. What the
// request's other asks come to goes before: they may deny it, or one that fits
// may be all that its quotas need.
func (l *Local) pick(here *subset, replicas int, asks []algorithm.Ask, out []algorithm.Decision, from, to int) {
	others := standing(asks[from:to], out[from:to])
	for i := from; i < to; i++ {
		if !local(&asks[i], &out[i]) {
			continue
		}
		a := here.add(&asks[i], i)
		a.Limit = l.shares.of(a.Limit, replicas)
		a.Withheld = a.Withheld || others.deny
		if others.quotaFits && a.OneOfQuotas() {
			a.Shadow = !a.Withheld // charged if it fits, and vetoes nothing
		}
	}
}

// others is what those asks of a request come to that are not decided here.
type others struct {
	deny      bool // the request does not pass
	quotaFits bool // one of its quota asks fits
}

// standing is how a request stands by what the store has decided, and by the
// failure policies of what it has not.
func standing(asks []algorithm.Ask, out []algorithm.Decision) others {
	var o others
	quotas, open := 0, 0 // those that may still fit
	for i := range asks {
		a, d := &asks[i], &out[i]
		here := local(a, d)
		fits := !here && (d.Outcome == algorithm.Allowed || d.Outcome == algorithm.Undecided && a.OnStoreError == algorithm.FailAllow)
		switch {
		case a.OneOfQuotas():
			quotas++
			o.quotaFits = o.quotaFits || fits
			if fits || here {
				open++
			}
		case a.Vetoes() && !fits && !here:
			o.deny = true
		}
	}
	o.deny = o.deny || quotas > 0 && open == 0
	return o
}

// maxShares bounds how many shares are remembered. Limits are replaced when
// policies are, so that what is remembered goes stale.
const maxShares = 1 << 16

// shares remembers the shares of limits. The zero value is empty. It is safe
// for concurrent use.
type shares struct {
	mu    sync.RWMutex
	known map[shareKey]*algorithm.Limit
}

type shareKey struct {
	limit    *algorithm.Limit
	replicas int
}

// of returns the limit's share among so many processes.
func (s *shares) of(limit *algorithm.Limit, replicas int) *algorithm.Limit {
	if replicas <= 1 {
		return limit
	}
	key := shareKey{limit, replicas}
	s.mu.RLock()
	share := s.known[key]
	s.mu.RUnlock()
	if share != nil {
		return share
	}
	share = limit.Share(replicas)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil || len(s.known) >= maxShares {
		s.known = make(map[shareKey]*algorithm.Limit)
	}
	s.known[key] = share
	return share
}
