package backend

import (
	"context"
	"fmt"
	"time"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// lane returns the lane to the server with an address.
func (r *Redis) lane(address string) *lane {
	if l, ok := r.lanes.Load(address); ok {
		return l.(*lane)
	}
	b := newBreaker(address, r.budget, r.metrics.transitions, r.log)
	l, _ := r.lanes.LoadOrStore(address, &lane{
		run: r.runErrands, breaker: b, most: maxRunning, large: maxBatch, budget: r.budget, total: &r.strain,
	})
	return l.(*lane)
}

// laneOf returns the lane to the only server, or to the node of a Cluster that
// holds a key, as far as is known.
func (r *Redis) laneOf(ctx context.Context, key []byte) *lane {
	nowhere := r.lane("") // where they will learn why
	if r.cluster == nil || nowhere.breaker.refusal() != nil {
		return nowhere
	}
	began := time.Now()
	node, err := r.cluster.MasterForKey(ctx, string(key))
	nowhere.breaker.note(err, began)
	if err != nil {
		return nowhere
	}
	return r.lane(node.Options().Addr)
}

// decideTogether decides asks whose keys lie in one hash slot, or on the only
// server: in a call of their own when the lane is free, else in one with others.
func (r *Redis) decideTogether(ctx context.Context, l *lane, asks []algorithm.Ask, out []algorithm.Decision) {
	if began, ok := l.enter(); ok {
		defer l.leave(began)
		c := r.newCall()
		c.asks = append(c.asks, asks...)
		r.run(ctx, l.breaker, []*scriptCall{c})
		copy(out, c.out)
		r.free(c)
		return
	}
	e := l.newErrand(ctx)
	for i := range asks {
		e.add(&asks[i], asks[i].Group)
		if r.cluster != nil {
			e.slots = append(e.slots, slotOf(asks[0].Key))
		}
	}
	e.seal()
	if err := l.add(e); err != nil {
		fail(out, err)
		e.free()
		return
	}
	e.wait(out)
}

// runErrands runs a batch: as one call, or in a Cluster as one for each hash
// slot. The errands' asks keep their order, and their requests stay apart.
func (r *Redis) runErrands(batch []*errand) {
	defer func() {
		if p := recover(); p != nil { // it would end the process, not only a request
			for _, e := range batch {
				fail(e.out, fmt.Errorf("%w: panic: %v", ErrLost, p))
			}
		}
	}()
	var calls callsBySlot
	group := int32(0)
	for _, e := range batch {
		gone := false
		for i := range e.asks {
			if i == 0 || e.asks[i].Group != e.asks[i-1].Group {
				group++
				gone = abandoned(&e.asks[i])
			}
			if gone {
				e.out[i] = algorithm.Decision{Err: errGone}
				continue
			}
			calls.of(r, e.slot(i)).add(&e.asks[i], group, &e.out[i])
		}
	}
	r.run(contextUntil(endOf(batch)), batch[0].lane.breaker, calls.all)
	for _, c := range calls.all {
		c.deliver()
		r.free(c)
	}
}

// callsBySlot are the calls of a batch. The zero value is empty.
type callsBySlot struct {
	all    []*scriptCall
	bySlot map[uint16]*scriptCall // nil while there is one at most
	first  uint16                 // the slot of all[0]
}

// of returns the call of a slot.
func (s *callsBySlot) of(r *Redis, slot uint16) *scriptCall {
	if len(s.all) > 0 && slot == s.first {
		return s.all[0]
	}
	c := s.bySlot[slot]
	if c != nil {
		return c
	}
	c = r.newCall()
	s.all = append(s.all, c)
	if len(s.all) == 1 {
		s.first = slot
		return c
	}
	if s.bySlot == nil {
		s.bySlot = make(map[uint16]*scriptCall)
	}
	s.bySlot[slot] = c
	return c
}
