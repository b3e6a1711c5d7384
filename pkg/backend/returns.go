package backend

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// maxReturns bounds how many batches may be on their way to give charges back.
const maxReturns = 64

// returns gives back to a store, in the background, what it has charged for
// requests that do not pass. What finds no room stays charged, and so does what
// the store does not take back in time.
type returns struct {
	store decider
	room  chan struct{}
	going sync.WaitGroup
	undos undos
}

func newReturns(store decider, reg prometheus.Registerer) returns {
	return returns{store: store, room: make(chan struct{}, maxReturns), undos: newUndos(reg, "local")}
}

// close waits for what is on its way.
func (r *returns) close() { r.going.Wait() }

// send gives charges back, once, and counts what became of each. The asks must be
// the sender's no more.
func (r *returns) send(asks []algorithm.Ask) {
	select {
	case r.room <- struct{}{}:
	default:
		r.undos.failed.Add(float64(len(asks)))
		return
	}
	r.going.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), homeTimeout)
		defer cancel()
		back := make([]algorithm.Decision, len(asks))
		r.store.Decide(ctx, asks, back)
		r.undos.count(back)
		<-r.room
	})
}

// returnCharges gives back what the store, asked at an instant, has charged for
// requests that are denied here, as in a Cluster where some nodes decide and others
// do not.
func (l *Local) returnCharges(asked time.Time, asks []algorithm.Ask, out []algorithm.Decision) {
	var back []algorithm.Ask
	for from, to := range groups(asks) {
		if passes(asks[from:to], out[from:to]) {
			continue
		}
		for i := from; i < to; i++ {
			d := &out[i]
			if !decided(d) || !charged(&asks[i], d) {
				continue
			}
			late, a := tooLate(d, asked), uncharge(&asks[i], d)
			if late {
				continue
			}
			a.Key, a.Group = append([]byte(nil), a.Key...), int32(len(back))
			back = append(back, a)
		}
	}
	if len(back) > 0 {
		l.returns.send(back)
	}
}
