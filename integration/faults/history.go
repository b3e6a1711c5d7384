package faults

import (
	"slices"
	"time"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// replicas is how many ratelimitd share a store.
const replicas = 3

// instant is in microseconds since the epoch. All processes of a run share a machine, so its clock is Redis' clock too.
type instant int64

// never is after every instant.
const never = instant(1<<63 - 1)

func (at instant) plus(d time.Duration) instant { return at + instant(d.Microseconds()) }

func (at instant) since(earlier instant) time.Duration {
	return time.Duration(at-earlier) * time.Microsecond
}

// told is what a caller was answered.
type told uint8

const (
	failed   told = iota // an error in place of an answer
	admitted             // OK
	refused              // OVER_LIMIT
)

func (t told) String() string { return [...]string{"failed", "admitted", "refused"}[t] }

// call is one request of one hit, and what became of it.
type call struct {
	server     int
	key        string
	sent, back instant
	told       told
	degraded   bool   // a failure policy answered in place of the store
	reason     string // of a failure
}

// exact says whether the store itself decided the call.
func (c *call) exact() bool { return c.told != failed && !c.degraded }

// rule is what holds for a key.
type rule struct {
	limit  *algorithm.Limit
	policy algorithm.FailurePolicy
}

// fault is one thing that was done to the store during a run.
type fault struct {
	began, ended instant // ended: the store can be reached, and serves, again

	// only are the keys that it concerns; nil for all. Of perhaps it is not known whether it does: they had no counter. gone is the replica that is not there meanwhile, from 1; 0 for none, since it is
	// the store that is in trouble.
	only, perhaps map[string]bool
	gone          int

	// loses says that charges may be gone: those of calls since lostFrom, 0 for all there ever were.
	loses    bool
	lostFrom instant

	// exposed is how long after began calls may still be on their way to the store, which charges them although nobody hears of
	// that, and keep callers waiting. Later only probes do, this many.
	exposed time.Duration
	probes  int
}

// span is from one instant to another, both included.
type span struct{ from, to instant }

// meets says whether the call may have been decided within the span.
func (s span) meets(c *call) bool { return c.back >= s.from && c.sent <= s.to }

// concerns says whether the fault had to do with a key.
func (f *fault) concerns(key string) bool { return f.only == nil || f.only[key] }

// meets says whether the call may have been decided during the fault, or within a time after it.
func (f *fault) meets(c *call, after time.Duration) bool {
	return f.concerns(c.key) && (f.gone == 0 || f.gone == c.server+1) && span{f.began, f.ended.plus(after)}.meets(c)
}

// history is all that was seen in a run.
type history struct {
	rules  map[string]rule
	calls  []call
	faults []fault // in the order in which they began

	// stalls are when the machine was too busy to keep any promise: apart from each other, in order. Each is taken as a fault
	// that loses nothing.
	stalls []span

	// used is what each key holds in the end, as a look at it tells. Keys are missing whose limit forgets within the run.
	used map[string]int64

	// lostHome is how many hits replicas say they may not have brought home.
	lostHome int64
}

// byKey returns the calls of each key in the order in which they were sent.
func (h *history) byKey() map[string][]*call {
	all := make(map[string][]*call)
	for i := range h.calls {
		c := &h.calls[i]
		all[c.key] = append(all[c.key], c)
	}
	for _, calls := range all {
		slices.SortFunc(calls, func(a, b *call) int { return int(a.sent - b.sent) })
	}
	return all
}

// trouble says whether the call may have been decided during a fault or a stall, or within the time to recover from it.
func (h *history) trouble(c *call) bool {
	return slices.ContainsFunc(h.faults, func(f fault) bool { return f.meets(c, recovery+room) }) || h.stalled(c)
}

// stalled says whether the call may have felt a stall of the machine.
func (h *history) stalled(c *call) bool {
	return slices.ContainsFunc(h.stalls, func(s span) bool { return span{s.from, s.to.plus(aftermath)}.meets(c) })
}

// unanswered says whether the call failed since its replica was not there.
func (h *history) unanswered(c *call) bool {
	return c.told == failed && slices.ContainsFunc(h.faults, func(f fault) bool { return f.gone > 0 && f.meets(c, recovery) })
}

// stall returns how long the machine was too busy while the call was under way.
func (h *history) stall(c *call) time.Duration {
	var sum time.Duration
	for _, s := range h.stalls {
		if s.meets(c) {
			sum += min(s.to, c.back).since(max(s.from, c.sent))
		}
	}
	return sum
}

// apart returns spans that cover the same time and do not meet.
func apart(spans []span) []span {
	slices.SortFunc(spans, func(a, b span) int { return int(a.from - b.from) })
	var all []span
	for _, s := range spans {
		if last := len(all) - 1; last >= 0 && s.from <= all[last].to {
			all[last].to = max(all[last].to, s.to)
			continue
		}
		all = append(all, s)
	}
	return all
}

// length returns how much time spans that are apart cover.
func length(spans []span) time.Duration {
	var sum time.Duration
	for _, s := range spans {
		sum += s.to.since(s.from)
	}
	return sum
}
