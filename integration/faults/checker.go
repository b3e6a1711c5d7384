package faults

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

const (
	// room is what a loaded machine may add to every promised time.
	room = 250 * time.Millisecond

	// recovery is the promised time from the end of a fault to exact answers.
	recovery = 2 * time.Second

	// aftermath is how long a stall of the machine may be felt: time-outs, and the circuit breaker that they open.
	aftermath = 2 * room

	// impatience is what a call takes at most that does not wait for the store.
	impatience = 50 * time.Millisecond

	// remembered is how long a replica may refuse by what it has heard before, although the store has lost it since.
	remembered = time.Second
)

// promises are what a run is held to.
type promises struct {
	budget time.Duration // within which every answer leaves
}

// verdict is what a run has shown.
type verdict struct {
	problems []string // what must not have been; empty for a good run

	calls, failed, degraded int
	slowest                 time.Duration
	recovered               time.Duration // from the end of a fault to the last answer that was not exact
	over, overBound         int64         // admitted beyond the limits, and how many could be
	phantom, phantomBound   int64         // charged and not admitted, and how many could be
	unheard                 int64         // of those, charged when no more than probes should have been under way
	waited                  int           // calls that waited for the store then
	missing                 int64         // admitted by replicas by themselves, and not brought home
	stalled                 time.Duration // how long the machine was too busy to keep any promise
}

func (v *verdict) problem(format string, args ...any) {
	v.problems = append(v.problems, fmt.Sprintf(format, args...))
}

// check compares a run with what is promised.
func check(h *history, p promises) *verdict {
	v := &verdict{calls: len(h.calls), stalled: length(h.stalls)}
	for i := range h.calls {
		v.inTime(h, &h.calls[i], p)
		v.byPolicy(h, &h.calls[i])
	}
	byKey := h.byKey()
	keys := make([]string, 0, len(byKey))
	for key := range byKey {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		v.notTooMany(h, key, byKey[key])
		v.notTooFew(h, key, byKey[key])
		v.charged(h, key, byKey[key])
	}
	v.leftAlone(h)
	if v.missing > h.lostHome {
		v.problem("%d that replicas admitted by themselves were not brought home, and %d may be lost", v.missing, h.lostHome)
	}
	return v
}

// inTime: every answer leaves within the budget, and outside of faults and of the time to recover from them every answer is the
// store's.
func (v *verdict) inTime(h *history, c *call, p promises) {
	took := c.back.since(c.sent) - h.stall(c)
	v.slowest = max(v.slowest, took)
	if took > p.budget+room {
		v.problem("%s: %s after %v, more than %v and %v of room", c.key, c.told, took, p.budget, room)
	}
	if c.exact() {
		return
	}
	if h.trouble(c) {
		v.recovers(h, c)
		return
	}
	v.problem("%s: %s by policy %v after the time to recover: %s", c.key, c.told, h.rules[c.key].policy, c.reason)
}

// recovers takes note of an answer that was not exact. What a busy machine brings about says nothing of the fault.
func (v *verdict) recovers(h *history, c *call) {
	if h.stalled(c) {
		return
	}
	for _, f := range h.faults {
		if f.meets(c, recovery+room) {
			v.recovered = max(v.recovered, c.back.since(f.ended))
		}
	}
}

// byPolicy: what the store did not decide is answered as the rule says.
func (v *verdict) byPolicy(h *history, c *call) {
	if c.told == failed {
		v.failed++
	}
	if c.degraded {
		v.degraded++
	}
	if c.exact() || h.unanswered(c) {
		return
	}
	wrong := c.told == failed
	switch h.rules[c.key].policy {
	case algorithm.FailError:
		wrong = c.told != failed
	case algorithm.FailAllow:
		wrong = c.told != admitted
	case algorithm.FailDeny:
		wrong = c.told != refused
	case algorithm.FailLocal: // either answer
	}
	if wrong {
		v.problem("%s: %s in place of the store, which is not its policy: %s", c.key, c.told, c.reason)
	}
}

// notTooMany: what the store admits stays within the limit, but for as many as there were charges that the fault lost.
func (v *verdict) notTooMany(h *history, key string, calls []*call) {
	limit := h.rules[key].limit
	all, kept := exactly(admitted, calls), exactly(admitted, calls)
	for i, f := range h.faults {
		if !f.loses || !f.concerns(key) {
			continue
		}
		lost := span{f.lostFrom, f.ended}
		kept = slices.DeleteFunc(kept, lost.meets)
		before := span{0, f.began}
		if i > 0 {
			before.from = h.faults[i-1].ended
		}
		if n := excess(limit, slices.DeleteFunc(slices.Clone(all), func(c *call) bool { return c.sent < before.from || c.back > before.to })); n > 0 {
			v.problem("%s: %d admitted beyond the limit before the fault", key, n)
		}
	}
	for i := range h.faults {
		n := excess(limit, h.locally(i, calls)) - tolerated(limit)
		if h.rules[key].policy == algorithm.FailLocal && n > 0 {
			v.problem("%s: replicas by themselves admitted %d beyond the limit of which each has its share", key, n)
		}
	}
	v.over += excess(limit, all)
	v.overBound += int64(len(all) - len(kept))
	if n := excess(limit, kept); n > 0 {
		v.problem("%s: %d admitted beyond the limit of %d in %v by %s", key, n, limit.Requests, limit.Window, limit.Algorithm.Name)
	}
}

// exactly returns the calls that the store itself has answered so.
func exactly(t told, calls []*call) []*call {
	return slices.DeleteFunc(slices.Clone(calls), func(c *call) bool { return c.told != t || !c.exact() })
}

// locally returns the calls that replicas have admitted by themselves in an outage, by their shares. Those of a stall are outages of
// their own.
func (h *history) locally(outage int, calls []*call) []*call {
	f := &h.faults[outage]
	return slices.DeleteFunc(slices.Clone(calls), func(c *call) bool {
		return c.told != admitted || !c.degraded || !f.meets(c, recovery+room) || c.sent > f.ended && h.stalled(c)
	})
}

// tolerated is what shares may admit beyond the limit: each is 1 at least, and of each bucket a part of a hit is rounded up.
func tolerated(l *algorithm.Limit) int64 {
	n := max(0, replicas-l.Capacity)
	if l.Algorithm == algorithm.TokenBucket || l.Algorithm == algorithm.LeakyBucket {
		n += replicas
	}
	return n
}

// notTooFew: the store refuses nothing that had to fit even if every call whose answer was lost was charged.
func (v *verdict) notTooFew(h *history, key string, calls []*call) {
	limit := h.rules[key].limit
	charges := possible(h, calls)
	var unjust []*call
	for _, c := range exactly(refused, calls) {
		at := span{c.sent, c.back}
		if !mayRefuse(limit, at, lasting(h, key, at, charges)) {
			unjust = append(unjust, c)
		}
	}
	if len(unjust) > 0 {
		v.problem("%s: %d refused although the limit of %d in %v was not used up; up to the first of them: %s",
			key, len(unjust), limit.Requests, limit.Window, until(calls, unjust[0]))
	}
}

// possible returns what the store may have charged, in the order of the ends. A call that it did not answer may reach it as late
// as the fault ends.
func possible(h *history, calls []*call) []charge {
	var charges []charge
	for _, c := range calls {
		switch {
		case c.exact() && c.told == admitted:
			charges = append(charges, charge{span{c.sent, c.back}})
		case !c.exact():
			charges = append(charges, charge{span{c.sent, latest(h, c)}})
			if c.told == admitted && h.rules[c.key].policy == algorithm.FailLocal { // once unheard, and once more brought home
				charges = append(charges, charge{span{c.sent, latest(h, c)}})
			}
		}
	}
	slices.SortFunc(charges, func(a, b charge) int { return int(a.to - b.to) })
	return charges
}

// latest is when a call that the store did not answer may have been charged: its bytes may wait at a store that stands still.
func latest(h *history, c *call) instant {
	end := c.back.plus(room)
	for _, f := range h.faults {
		if f.meets(c, recovery) { // also what is brought home
			end = max(end, f.ended.plus(recovery+room))
		}
	}
	if h.stalled(c) {
		end = end.plus(recovery)
	}
	return end
}

// lasting returns the charges that count at a time: those that a fault before has surely lost do not.
func lasting(h *history, key string, at span, charges []charge) []charge {
	for _, f := range h.faults {
		if f.loses && f.concerns(key) && !f.perhaps[key] && f.lostFrom == 0 && at.from > f.ended.plus(remembered+room) {
			charges = slices.DeleteFunc(slices.Clone(charges), func(c charge) bool { return c.to < f.began })
		}
	}
	return charges
}

// charged: in the end a key holds what was admitted, by replicas that were by themselves too, but for what a fault lost and for calls
// that were under way when it began.
func (v *verdict) charged(h *history, key string, calls []*call) {
	used, known := h.used[key]
	if !known {
		return
	}
	var sure, lost, home, exposed int64
	for _, c := range calls {
		switch {
		case c.exact() && c.told == admitted && mayBeLost(h, c):
			lost++
		case c.exact() && c.told == admitted:
			sure++
		case c.told == admitted && h.rules[key].policy == algorithm.FailLocal && lostSince(h, c):
			lost++
		case c.told == admitted && h.rules[key].policy == algorithm.FailLocal:
			home++
		}
		if !c.exact() && isExposed(h, c) {
			exposed++
		}
	}
	v.phantom += max(0, used-sure-lost-home)
	v.phantomBound += exposed
	if used < sure {
		v.problem("%s: holds %d in the end, %d were admitted", key, used, sure)
	}
	v.missing += min(max(0, sure+home-used), home)
	v.unheard += max(0, used-sure-lost-home-exposed)
}

// leftAlone: a store that has failed for a while is left alone but for probes, which charge no more than that unheard, and for which
// no more than that wait.
func (v *verdict) leftAlone(h *history) {
	probes := 0
	for _, f := range h.faults {
		probes += f.probes
	}
	for i := range h.calls {
		if c := &h.calls[i]; !c.exact() && !isExposed(h, c) && !h.unanswered(c) && c.back.since(c.sent)-h.stall(c) > impatience {
			v.waited++
		}
	}
	v.phantomBound += int64(probes)
	if v.unheard > int64(probes) {
		v.problem("%d more were charged than admitted or on their way when the fault began, and %d could be by probes", v.unheard, probes)
	}
	if v.waited > probes {
		v.problem("%d waited for a store that was known to be away, and %d could as probes", v.waited, probes)
	}
}

// lostSince says whether what a replica has brought home of the call is lost since.
func lostSince(h *history, c *call) bool {
	return slices.ContainsFunc(h.faults, func(f fault) bool { return f.loses && f.concerns(c.key) && c.back <= f.began })
}

func mayBeLost(h *history, c *call) bool {
	return slices.ContainsFunc(h.faults, func(f fault) bool { return f.loses && f.concerns(c.key) && span{f.lostFrom, f.ended}.meets(c) })
}

func isExposed(h *history, c *call) bool {
	return h.stalled(c) ||
		slices.ContainsFunc(h.faults, func(f fault) bool { return f.concerns(c.key) && span{f.began, f.began.plus(f.exposed)}.meets(c) })
}

// until tells of the calls of a key before one and at the same time, the times from when that one was sent.
func until(calls []*call, last *call) string {
	var text []string
	for _, c := range calls {
		if c.sent <= last.back {
			text = append(text, fmt.Sprintf("%v to %v %s", c.sent.since(last.sent), c.back.since(last.sent), c.told))
		}
	}
	const enough = 20
	return strings.Join(text[max(0, len(text)-enough):], ", ")
}
