package backend

import (
	"context"
	"time"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// place is where a key lies: in which keeper and, if that has several parts, in
// which of them: a Cluster has hash slots, memcached has servers. What lies in one
// place is asked for together.
type place struct {
	in   keeper
	slot uint16
}

// keeper keeps counters in places.
type keeper interface {
	// laneOf is the lane to the server that holds a key.
	laneOf(ctx context.Context, key []byte) *lane

	// decideTogether decides asks whose keys lie in one place.
	decideTogether(ctx context.Context, l *lane, asks []algorithm.Ask, out []algorithm.Decision)

	// inParts reports whether a request may be charged in part in one place too.
	inParts() bool

	// giveBack gives charges back, once, also when the context has ended.
	giveBack(ctx context.Context, undo []algorithm.Ask) <-chan []algorithm.Decision

	// trouble takes a line for what was not decided.
	trouble() *sparingLog
}

// places knows where the keys of a store lie.
type places interface {
	placeOf(ask *algorithm.Ask) place
}

// placeOf implements places.
func (r *Redis) placeOf(ask *algorithm.Ask) place {
	if r.cluster == nil {
		return place{in: r}
	}
	return place{r, slotOf(ask.Key)}
}

// inParts implements keeper: what one script call charges is charged at once.
func (r *Redis) inParts() bool { return false }

// giveBack implements keeper.
func (r *Redis) giveBack(ctx context.Context, undo []algorithm.Ask) <-chan []algorithm.Decision {
	return r.returns.send(ctx, oneByOne(r), undo)
}

// trouble implements keeper.
func (r *Redis) trouble() *sparingLog { return r.failing }

// decideByPlace decides asks in one call for each place of their keys, all at the
// same time.
func decideByPlace(ctx context.Context, where places, asks []algorithm.Ask, out []algorithm.Decision) {
	if here, one := onePlace(where, asks); one {
		here.in.decideTogether(ctx, here.in.laneOf(ctx, asks[0].Key), asks, out)
		return
	}
	s, began := split{where: where, ctx: ctx}, time.Now()
	var spread [][2]int // requests that may be charged in part
	for from, to := range groups(asks) {
		here, one := onePlace(where, asks[from:to])
		if one {
			s.add(asks, from, to)
		} else {
			s.spread(asks, from, to)
		}
		if !one || here.in.inParts() && to-from > 1 {
			spread = append(spread, [2]int{from, to})
		}
	}
	s.run(out)
	if len(spread) > 0 {
		settle(ctx, where, began, asks, out, spread)
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
		e = s.errandTo(there.in.laneOf(s.ctx, ask.Key))
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

// undo is what one keeper is to give back.
type undo struct {
	in   keeper
	asks []algorithm.Ask
	at   []int // where each of asks comes from
	done <-chan []algorithm.Decision
}

// settle gives back what was charged, since an instant, for requests that do not
// pass, and shows their keys as they then stand.
func settle(ctx context.Context, where places, began time.Time, asks []algorithm.Ask, out []algorithm.Decision, spread [][2]int) {
	var undos []*undo
	for _, bounds := range spread {
		from, to := bounds[0], bounds[1]
		for i, back := range refunds(began, asks[from:to], out[from:to]) {
			var u *undo
			undos, u = undoIn(undos, where.placeOf(&back).in)
			u.asks, u.at = append(u.asks, back), append(u.at, from+i)
		}
	}
	for _, u := range undos {
		u.done = u.in.giveBack(ctx, u.asks)
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

// undoIn returns what a keeper is to give back, and adds it where it is the first.
func undoIn(undos []*undo, in keeper) ([]*undo, *undo) {
	for _, u := range undos {
		if u.in == in {
			return undos, u
		}
	}
	u := &undo{in: in}
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

// oneByOne decides asks where they lie, each by itself.
func oneByOne(where places) decideFunc {
	return func(ctx context.Context, asks []algorithm.Ask, out []algorithm.Decision) {
		s := split{where: where, ctx: ctx}
		for i := range asks {
			s.add(asks, i, i+1)
		}
		s.run(out)
	}
}
