package backend

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// SheddingOptions are the settings of a [Shedding]. The zero value is usable.
type SheddingOptions struct {
	// Budget is the time within which requests are to be answered; 0 is
	// DefaultTimeout.
	Budget time.Duration

	// Registerer takes the metrics; nil keeps them unregistered.
	Registerer prometheus.Registerer
}

// Shedding leaves out requests, by priority, when more come than can be decided
// in time, so that the others are. Nothing is charged for those.
//
// How much comes is measured by what it waits for, as a part of the budget:
//
//	strain = of the server's queue (see lane.unlock) + lag of this process / budget
//
// From 1/2 on sheddable requests are denied, from 3/4 on default ones are left
// Undecided as well, and from 1 on critical ones, which would not be answered in
// time anyhow; each until the strain is a quarter less. A request is as important
// as the most important of its asks; one that gives hits back, or records what
// has happened, is critical. In front of a store that never waits only sheddable
// requests are left out, since a decision costs no more than leaving it out.
type Shedding struct {
	next    decider
	queues  queues // nil: next never waits
	process strain // the lag
	omitted [3]prometheus.Counter
	scratch sync.Pool // *remainder
	stop    context.CancelFunc
	stopped chan struct{}
}

// queues are what asks wait for in a store.
type queues interface {
	// strained is the sum of all queues' strain.
	strained() int64
	// strainOf is that of the queue for an ask.
	strainOf(ctx context.Context, ask *algorithm.Ask) *strain
}

var errOverloaded = fmt.Errorf("%w: overloaded: more is asked than can be answered in time", ErrUnavailable)

// WithShedding stacks shedding on a store. Close it to end its goroutine.
func WithShedding(next decider, o SheddingOptions) *Shedding {
	if o.Budget <= 0 {
		o.Budget = DefaultTimeout
	}
	shed := promauto.With(o.Registerer).NewCounterVec(prometheus.CounterOpts{
		Name: "ratelimitd_shed_total",
		Help: "Requests left out because more came than could be decided in time, by priority: sheddable ones are denied, the others answered by on_store_error.",
	}, []string{"priority"})
	ctx, cancel := context.WithCancel(context.Background())
	s := &Shedding{
		next:    next,
		omitted: [...]prometheus.Counter{shed.WithLabelValues("sheddable"), shed.WithLabelValues("default"), shed.WithLabelValues("critical")},
		scratch: sync.Pool{New: func() any { return new(remainder) }},
		stop:    cancel,
		stopped: make(chan struct{}),
	}
	s.queues, _ = next.(queues)
	go func() {
		defer close(s.stopped)
		watchLag(ctx, func(late time.Duration) { s.lags(thousandths(late, o.Budget)) })
	}()
	return s
}

// Close ends the goroutine. It may still be asked.
func (s *Shedding) Close() {
	s.stop()
	<-s.stopped
}

// lags takes note of the lag.
func (s *Shedding) lags(thousandths int64) {
	s.process.set(thousandths)
	s.process.shed(0)
}

func (s *Shedding) neverWaits() bool { return s.queues == nil }

// Decide asks the store, for as much as can be decided in time.
func (s *Shedding) Decide(ctx context.Context, asks []algorithm.Ask, out []algorithm.Decision) {
	if s.strained() < shedUntil[0] {
		s.next.Decide(ctx, asks, out)
		return
	}
	s.decideSome(ctx, asks, out[:len(asks)])
}

// strained is at least the strain of any request.
func (s *Shedding) strained() int64 {
	lag := s.process.now.Load()
	if s.queues == nil {
		return lag
	}
	return lag + s.queues.strained()
}

func (s *Shedding) decideSome(ctx context.Context, asks []algorithm.Ask, out []algorithm.Decision) {
	rest := s.scratch.Get().(*remainder)
	rest.refused = append(rest.refused[:0], make([]bool, len(asks))...)
	omitted := 0
	for from, to := range groups(asks) {
		rank := rankOf(asks[from:to])
		if s.level(ctx, asks[from:to]) < rank {
			continue
		}
		for i := from; i < to; i++ {
			rest.refused[i] = true
			out[i] = algorithm.Decision{Err: errOverloaded}
			if rank == 1 {
				denyInPlace(&asks[i], &out[i])
			}
		}
		omitted += to - from
		s.omitted[rank-1].Inc()
	}
	switch omitted {
	case 0:
		s.next.Decide(ctx, asks, out)
	case len(asks):
	default:
		rest.collect(asks)
		s.next.Decide(ctx, rest.asks, rest.out)
		rest.deliver(out)
	}
	rest.forget()
	s.scratch.Put(rest)
}

// level is how many priorities are shed where a request is strained most.
func (s *Shedding) level(ctx context.Context, asks []algorithm.Ask) int32 {
	if s.queues == nil {
		return min(s.process.level.Load(), 1)
	}
	lag, level := s.process.now.Load(), int32(0)
	var last *strain
	for i := range asks {
		if own := s.queues.strainOf(ctx, &asks[i]); own != last {
			level, last = max(level, own.shed(lag)), own
		}
	}
	return level
}

// rankOf is the level from which a request is left out.
func rankOf(asks []algorithm.Ask) int32 {
	rank := int32(1)
	for i := range asks {
		switch {
		case asks[i].Priority == algorithm.PriorityCritical, asks[i].Mode != algorithm.Charge:
			return 3
		case asks[i].Priority == algorithm.PriorityDefault:
			rank = 2
		}
	}
	return rank
}

// strained implements queues.
func (r *Redis) strained() int64 { return r.strain.Load() }

// strainOf implements queues.
func (r *Redis) strainOf(ctx context.Context, ask *algorithm.Ask) *strain {
	return &r.laneOf(ctx, ask.Key).strain
}
