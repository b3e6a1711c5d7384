package backend

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// errand is what one call of Decide asks of one lane. It holds copies, so that
// its caller may leave at its own deadline while the batch goes on.
type errand struct {
	lane  *lane
	ctx   context.Context
	asks  []algorithm.Ask      // their keys lie in keys
	slots []uint16             // the hash slot of each ask; none outside a Cluster
	at    []int                // where each ask comes from; none: where it is
	out   []algorithm.Decision // of each ask, once finished
	keys  []byte
	state atomic.Int32
	done  chan struct{} // takes a value when finished
}

// The states of an errand.
const (
	waiting  = iota // in a lane
	begun           // in a batch that is under way
	finished        // out is filled in, for the caller to read and to free
	gone            // the caller has left: who has the errand frees it
)

var errQueueFull = fmt.Errorf("%w: too many requests wait for it", ErrUnavailable)

// errGone is the reason for which what nobody waits for is not asked.
var errGone = fmt.Errorf("%w: the caller has left: %w", ErrUnavailable, context.Canceled)

// abandoned reports whether the caller of an ask has left.
func abandoned(a *algorithm.Ask) bool { return a.Gone != nil && a.Gone.Load() }

// newErrand returns an errand to be added to the lane.
func (l *lane) newErrand(ctx context.Context) *errand {
	e, ok := l.errands.Get().(*errand)
	if !ok {
		e = &errand{lane: l, done: make(chan struct{}, 1)}
	}
	e.ctx = ctx
	return e
}

// add copies an ask, with a group that is the errand's own. The key is copied
// by seal.
func (e *errand) add(ask *algorithm.Ask, group int32) {
	e.asks = append(e.asks, *ask)
	e.asks[len(e.asks)-1].Group = group
}

// seal ends the adding: from now on the errand needs nothing of its caller.
func (e *errand) seal() {
	size := 0
	for i := range e.asks {
		size += len(e.asks[i].Key)
	}
	if cap(e.keys) < size {
		e.keys = make([]byte, 0, size)
	}
	for i := range e.asks {
		from := len(e.keys)
		e.keys = append(e.keys, e.asks[i].Key...)
		e.asks[i].Key = e.keys[from:len(e.keys):len(e.keys)]
	}
	e.out = append(e.out[:0], make([]algorithm.Decision, len(e.asks))...)
}

// slot is the hash slot of an ask.
func (e *errand) slot(i int) uint16 {
	if len(e.slots) == 0 {
		return 0
	}
	return e.slots[i]
}

// begin takes the errand into a batch. It reports false, and frees it, when
// nobody waits for it.
func (e *errand) begin() bool {
	if e.state.CompareAndSwap(waiting, begun) {
		return true
	}
	e.free()
	return false
}

// finish tells the caller that out is filled in, or frees the errand of a
// caller that has left.
func (e *errand) finish() {
	if e.state.CompareAndSwap(begun, finished) {
		e.done <- struct{}{}
		return
	}
	e.free()
}

// wait waits until the errand is finished, or its context has ended. Then it
// copies the decisions and frees the errand.
func (e *errand) wait(out []algorithm.Decision) {
	select {
	case <-e.done:
	case <-e.ctx.Done():
		if e.leave(out) {
			return
		}
		<-e.done
	}
	e.deliver(out)
	e.free()
}

// leave gives the errand up, unless it is finished.
func (e *errand) leave(out []algorithm.Decision) bool {
	err := fmt.Errorf("%w: %w", ErrTimeout, e.ctx.Err())
	e.refuse(out, err)
	return e.state.CompareAndSwap(waiting, gone) || e.state.CompareAndSwap(begun, gone)
}

// refuse makes the caller's decisions Undecided.
func (e *errand) refuse(out []algorithm.Decision, err error) {
	for i := range e.asks {
		out[e.place(i)] = algorithm.Decision{Err: err}
	}
}

func (e *errand) deliver(out []algorithm.Decision) {
	for i := range e.out {
		out[e.place(i)] = e.out[i]
	}
}

// place is where the decision of an ask belongs in its caller's.
func (e *errand) place(i int) int {
	if len(e.at) == 0 {
		return i
	}
	return e.at[i]
}

// free gives the errand back for others to use.
func (e *errand) free() {
	if cap(e.asks) > 1024 {
		return
	}
	clear(e.asks)
	clear(e.out)
	e.ctx, e.asks, e.slots, e.at, e.out, e.keys = nil, e.asks[:0], e.slots[:0], e.at[:0], e.out[:0], e.keys[:0]
	e.state.Store(waiting)
	e.lane.errands.Put(e)
}
