package backend

import (
	"context"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// place is where a key lies: in which Redis and, if that is a Cluster, in which
// hash slot of it. What lies in one place can be charged in one call.
type place struct {
	redis *Redis
	slot  uint16
}

// places knows where the keys of a store lie.
type places interface {
	placeOf(ask *algorithm.Ask) place
}

// placeOf implements places.
func (r *Redis) placeOf(ask *algorithm.Ask) place {
	if r.cluster == nil {
		return place{redis: r}
	}
	return place{r, slotOf(ask.Key)}
}

// decideByPlace decides asks in one call for each place of their keys, all at the
// same time.
func decideByPlace(ctx context.Context, where places, asks []algorithm.Ask, out []algorithm.Decision) {
	if here, one := onePlace(where, asks); one {
		here.redis.decideTogether(ctx, here.redis.laneOf(ctx, asks[0].Key), asks, out)
		return
	}
	s := split{where: where, ctx: ctx}
	var spread [][2]int // requests whose keys lie in several places
	for from, to := range groups(asks) {
		if _, one := onePlace(where, asks[from:to]); one {
			s.add(asks, from, to)
		} else {
			s.spread(asks, from, to)
			spread = append(spread, [2]int{from, to})
		}
	}
	s.run(out)
	if len(spread) > 0 {
		settle(ctx, where, asks, out, spread)
	}
}

// onePlace returns the place of the first key, and whether it is that of all.
func onePlace(where places, asks []algorithm.Ask) (first place, one bool) {
	first = where.placeOf(&asks[0])
	for i := range asks[1:] {
		if where.placeOf(&asks[1+i]) != first {
			return first, false
		}
	}
	return first, true
}

// split sorts asks into errands by the server that holds their keys.
type split struct {
	where   places
	ctx     context.Context
	errands []*errand
	byPlace map[place]*errand // those of the places met so far
	groups  int32
}

// add adds asks[from:to] as one request.
func (s *split) add(asks []algorithm.Ask, from, to int) {
	s.groups++
	for i := from; i < to; i++ {
		s.addOne(&asks[i], i, s.groups)
	}
}

func (s *split) addOne(ask *algorithm.Ask, at int, group int32) {
	there := s.where.placeOf(ask)
	e := s.byPlace[there]
	if e == nil {
		e = s.errandTo(there.redis.laneOf(s.ctx, ask.Key))
		if s.byPlace == nil {
			s.byPlace = make(map[place]*errand)
		}
		s.byPlace[there] = e
	}
	e.add(ask, group)
	e.slots, e.at = append(e.slots, there.slot), append(e.at, at)
}

func (s *split) errandTo(l *lane) *errand {
	for _, e := range s.errands {
		if e.lane == l {
			return e
		}
	}
	e := l.newErrand(s.ctx)
	s.errands = append(s.errands, e)
	return e
}

// spread adds a request whose keys lie in several places: in each place the asks
// that must all fit as one request, and each quota ask as one of its own, since
// that one of them fits is said of the whole request.
func (s *split) spread(asks []algorithm.Ask, from, to int) {
	s.groups++
	whole := s.groups
	for i := from; i < to; i++ {
		if !asks[i].OneOfQuotas() {
			s.addOne(&asks[i], i, whole)
		}
	}
	for i := from; i < to; i++ {
		if asks[i].OneOfQuotas() {
			s.groups++
			s.addOne(&asks[i], i, s.groups)
		}
	}
}

// run runs the errands at the same time and puts the decisions where the asks
// came from.
func (s *split) run(out []algorithm.Decision) {
	for _, e := range s.errands {
		e.seal()
	}
	if len(s.errands) == 1 && s.runAlone(s.errands[0], out) {
		return
	}
	there := s.errands[:0]
	for _, e := range s.errands {
		if err := e.lane.add(e); err != nil {
			e.refuse(out, err)
			e.free()
			continue
		}
		there = append(there, e)
	}
	for _, e := range there {
		e.wait(out)
	}
}

// runAlone runs the only errand here, if its lane is free.
func (s *split) runAlone(e *errand, out []algorithm.Decision) bool {
	began, ok := e.lane.enter()
	if !ok {
		return false
	}
	defer e.lane.leave(began)
	e.lane.run([]*errand{e})
	e.deliver(out)
	e.free()
	return true
}

// charged reports whether an ask was charged on the condition that its request
// passes.
func charged(a *algorithm.Ask, d *algorithm.Decision) bool {
	return (a.Vetoes() || a.OneOfQuotas()) && !a.Limit.Overdraw && d.Outcome == algorithm.Allowed && d.After > d.Before
}

// passes reports whether a request goes through, all its places taken together.
// What one of them did not decide counts as its failure policy says: one that is to be
// decided locally is taken to fit; where it is an error the request does not go
// through.
func passes(asks []algorithm.Ask, out []algorithm.Decision) bool {
	quotas, fitting := 0, 0
	for i := range asks {
		fits := out[i].Outcome == algorithm.Allowed ||
			out[i].Outcome == algorithm.Undecided && (asks[i].OnStoreError == algorithm.FailAllow || asks[i].OnStoreError == algorithm.FailLocal)
		switch {
		case asks[i].Withheld:
			return false
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

// undo is what one Redis is to give back.
type undo struct {
	redis *Redis
	asks  []algorithm.Ask
	at    []int // where each of asks comes from
	done  <-chan []algorithm.Decision
}

// settle gives back what was charged for requests that do not pass, and shows
// their keys as they then stand.
func settle(ctx context.Context, where places, asks []algorithm.Ask, out []algorithm.Decision, spread [][2]int) {
	var undos []*undo
	for _, bounds := range spread {
		from, to := bounds[0], bounds[1]
		if passes(asks[from:to], out[from:to]) {
			continue
		}
		for i := from; i < to; i++ {
			if charged(&asks[i], &out[i]) {
				var u *undo
				undos, u = undoIn(undos, where.placeOf(&asks[i]).redis)
				u.asks, u.at = append(u.asks, uncharge(&asks[i], &out[i])), append(u.at, i)
			}
		}
	}
	for _, u := range undos {
		u.done = u.redis.undo(ctx, u.asks)
	}
	for _, u := range undos {
		select {
		case back := <-u.done:
			u.show(back, out)
		case <-ctx.Done(): // they are given back all the same
			return
		}
	}
}

// undoIn returns what a Redis is to give back, and adds it where it is the first.
func undoIn(undos []*undo, r *Redis) ([]*undo, *undo) {
	for _, u := range undos {
		if u.redis == r {
			return undos, u
		}
	}
	u := &undo{redis: r}
	return append(undos, u), u
}

// show shows how keys stand after what was charged has been given back.
func (u *undo) show(back, out []algorithm.Decision) {
	for i, at := range u.at {
		if back[i].Outcome == algorithm.Allowed {
			d := &out[at]
			d.Before, d.After, d.Remaining, d.Reset = back[i].After, back[i].After, back[i].Remaining, back[i].Reset
		}
	}
}

// uncharge shows a decision without what it has charged, and returns the ask that
// gives that back.
func uncharge(a *algorithm.Ask, d *algorithm.Decision) algorithm.Ask {
	d.After = d.Before
	d.Remaining = max(0, a.Limit.Capacity-d.After)
	return algorithm.Ask{Key: a.Key, Limit: a.Limit, Hits: a.Hits, Mode: algorithm.GiveBack}
}

// undo gives charges back, once, also when the context has ended, and counts
// what became of each. Only so many of those may be under way.
func (r *Redis) undo(ctx context.Context, undo []algorithm.Ask) <-chan []algorithm.Decision {
	back := make(chan []algorithm.Decision, 1)
	select {
	case r.undos <- struct{}{}:
	default:
		r.metrics.undos.failed.Add(float64(len(undo)))
		back <- make([]algorithm.Decision, len(undo))
		return back
	}
	for i := range undo {
		undo[i].Key = append([]byte(nil), undo[i].Key...) // the caller's, only until it has its answer
	}
	r.undoing.Go(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.timeout)
		defer cancel()
		back <- r.undoNow(ctx, undo)
		<-r.undos
	})
	return back
}

func (r *Redis) undoNow(ctx context.Context, undo []algorithm.Ask) []algorithm.Decision {
	s := split{where: r, ctx: ctx}
	for i := range undo {
		s.add(undo, i, i+1)
	}
	back := make([]algorithm.Decision, len(undo))
	s.run(back)
	r.metrics.undos.count(back)
	for i := range back {
		if back[i].Outcome != algorithm.Allowed {
			r.failing.Warn("a charge could not be given back", "reason", back[i].Err)
		}
	}
	return back
}
