package backend

import (
	"context"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// decideBySlot decides asks in a Cluster: one call for each hash slot.
func (r *Redis) decideBySlot(ctx context.Context, asks []algorithm.Ask, out []algorithm.Decision) {
	if oneSlot(asks) {
		r.decideTogether(ctx, asks, out)
		return
	}
	s := split{store: r, bySlot: make(map[uint16]*scriptCall)}
	var spread [][2]int // requests whose keys lie in several slots
	for from, to := range groups(asks) {
		if oneSlot(asks[from:to]) {
			s.add(slotOf(asks[from].Key), asks, from, to)
		} else {
			s.spread(asks, from, to)
			spread = append(spread, [2]int{from, to})
		}
	}
	s.run(ctx, out)
	if len(spread) > 0 {
		r.settle(ctx, asks, out, spread)
	}
}

func oneSlot(asks []algorithm.Ask) bool {
	first := slotOf(asks[0].Key)
	for i := range asks[1:] {
		if slotOf(asks[1+i].Key) != first {
			return false
		}
	}
	return true
}

// split sorts asks into calls by hash slot.
type split struct {
	store  *Redis
	bySlot map[uint16]*scriptCall
	calls  []*scriptCall
	groups int32
}

// of returns the call of a slot.
func (s *split) of(slot uint16) *scriptCall {
	c := s.bySlot[slot]
	if c == nil {
		c = s.store.newCall()
		s.bySlot[slot] = c
		s.calls = append(s.calls, c)
	}
	return c
}

// add adds asks[from:to] as one request to the call of a slot.
func (s *split) add(slot uint16, asks []algorithm.Ask, from, to int) {
	s.groups++
	for i := from; i < to; i++ {
		s.addOne(slot, &asks[i], i, s.groups)
	}
}

func (s *split) addOne(slot uint16, ask *algorithm.Ask, at int, group int32) {
	c := s.of(slot)
	c.asks, c.at = append(c.asks, *ask), append(c.at, at)
	c.asks[len(c.asks)-1].Group = group
}

// spread adds a request whose keys lie in several slots: in each slot the asks
// that must all fit as one request, and each quota ask as one of its own, since
// that one of them fits is said of the whole request.
func (s *split) spread(asks []algorithm.Ask, from, to int) {
	s.groups++
	whole := s.groups
	for i := from; i < to; i++ {
		if !asks[i].OneOfQuotas() {
			s.addOne(slotOf(asks[i].Key), &asks[i], i, whole)
		}
	}
	for i := from; i < to; i++ {
		if asks[i].OneOfQuotas() {
			s.groups++
			s.addOne(slotOf(asks[i].Key), &asks[i], i, s.groups)
		}
	}
}

// run runs the calls and puts the decisions where the asks came from.
func (s *split) run(ctx context.Context, out []algorithm.Decision) {
	s.store.run(ctx, s.calls)
	for _, c := range s.calls {
		for i, at := range c.at {
			out[at] = c.out[i]
		}
		s.store.free(c)
	}
}

// charged reports whether an ask was charged on the condition that its request
// passes.
func charged(a *algorithm.Ask, d *algorithm.Decision) bool {
	return (a.Vetoes() || a.OneOfQuotas()) && !a.Limit.Overdraw && d.Outcome == algorithm.Allowed && d.After > d.Before
}

// passes reports whether a request goes through, all its slots taken together.
// What a slot did not decide counts as its failure policy says; where that is
// an error the request does not go through.
func passes(asks []algorithm.Ask, out []algorithm.Decision) bool {
	quotas, fitting := 0, 0
	for i := range asks {
		fits := out[i].Outcome == algorithm.Allowed ||
			out[i].Outcome == algorithm.Undecided && asks[i].OnStoreError == algorithm.FailAllow
		switch {
		case asks[i].OneOfQuotas():
			quotas++
			if fits {
				fitting++
			}
		case asks[i].Vetoes() && !fits:
			return false
		}
	}
	return quotas == 0 || fitting > 0
}

// settle gives back what was charged for requests that do not pass, and shows
// their keys as they then stand.
func (r *Redis) settle(ctx context.Context, asks []algorithm.Ask, out []algorithm.Decision, spread [][2]int) {
	var undo []algorithm.Ask
	var at []int
	for _, bounds := range spread {
		from, to := bounds[0], bounds[1]
		if passes(asks[from:to], out[from:to]) {
			continue
		}
		for i := from; i < to; i++ {
			if charged(&asks[i], &out[i]) {
				undo, at = append(undo, giveBack(&asks[i])), append(at, i)
				out[i].After = out[i].Before
				out[i].Remaining = max(0, asks[i].Limit.Capacity-out[i].After)
			}
		}
	}
	if len(undo) == 0 {
		return
	}
	if ctx.Err() != nil {
		r.undoLater(ctx, undo)
		return
	}
	back := r.undo(ctx, undo)
	for i, at := range at {
		if back[i].Outcome == algorithm.Allowed {
			d := &out[at]
			d.Before, d.After, d.Remaining, d.Reset = back[i].After, back[i].After, back[i].Remaining, back[i].Reset
		}
	}
}

func giveBack(a *algorithm.Ask) algorithm.Ask {
	return algorithm.Ask{Key: a.Key, Limit: a.Limit, Hits: a.Hits, Mode: algorithm.GiveBack}
}

// undo gives charges back, once, and counts what became of each.
func (r *Redis) undo(ctx context.Context, undo []algorithm.Ask) []algorithm.Decision {
	s := split{store: r, bySlot: make(map[uint16]*scriptCall)}
	for i := range undo {
		s.add(slotOf(undo[i].Key), undo, i, i+1)
	}
	back := make([]algorithm.Decision, len(undo))
	s.run(ctx, back)
	for i := range back {
		if back[i].Outcome == algorithm.Allowed {
			r.metrics.undone.Inc()
		} else {
			r.metrics.undoFailed.Inc()
			r.failing.Warn("a charge could not be given back", "reason", back[i].Err)
		}
	}
	return back
}

// undoLater gives charges back for a request whose time is up. Only so many of
// those may be under way.
func (r *Redis) undoLater(ctx context.Context, undo []algorithm.Ask) {
	select {
	case r.undos <- struct{}{}:
	default:
		r.metrics.undoFailed.Add(float64(len(undo)))
		return
	}
	for i := range undo {
		undo[i].Key = append([]byte(nil), undo[i].Key...) // the caller's, only until it has its answer
	}
	r.undoing.Go(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.timeout)
		defer cancel()
		r.undo(ctx, undo)
		<-r.undos
	})
}
