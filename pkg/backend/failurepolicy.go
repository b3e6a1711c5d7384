package backend

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// DefaultTimeout is how long a [FailurePolicy] waits for the store when its
// options do not say: Envoy waits 20 ms by default, and the answer has to travel.
const DefaultTimeout = 15 * time.Millisecond

// degradedWait is what a client that was denied in place of the store is told
// to wait.
const degradedWait = time.Second

// decider is a store, or what stacks on one.
type decider interface {
	Decide(ctx context.Context, asks []algorithm.Ask, out []algorithm.Decision)
}

// FailureOptions are the settings of a [FailurePolicy]. The zero value is
// usable.
type FailureOptions struct {
	// Timeout bounds a call of the store; 0 is DefaultTimeout. Deadlines of
	// the asks bound it further.
	Timeout time.Duration

	// Local decides the asks whose policy is FailLocal; nil answers them as
	// FailError does.
	Local *Local

	// Registerer takes the metrics; nil keeps them unregistered.
	Registerer prometheus.Registerer
}

// FailurePolicy answers what its store did not decide, as each ask's
// OnStoreError says, and in time for the request's own deadline. It starts no
// goroutine: the store beneath keeps to the context's deadline.
type FailurePolicy struct {
	next    decider
	instant bool // next never waits, so that no deadline is needed
	timeout time.Duration
	local   *Local // nil: there is none

	failed, open, shut, here prometheus.Counter
}

// WithFailurePolicy stacks a failure policy on a store.
func WithFailurePolicy(next decider, o FailureOptions) *FailurePolicy {
	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
	}
	degraded := promauto.With(o.Registerer).NewCounterVec(prometheus.CounterOpts{
		Name: "ratelimitd_store_degraded_total",
		Help: "Decisions that on_store_error made in place of the store, by policy.",
	}, []string{"policy"})
	prompt, ok := next.(interface{ neverWaits() bool })
	return &FailurePolicy{
		next: next, instant: ok && prompt.neverWaits(), timeout: o.Timeout, local: o.Local,
		failed: degraded.WithLabelValues("error"),
		open:   degraded.WithLabelValues("allow"),
		shut:   degraded.WithLabelValues("deny"),
		here:   degraded.WithLabelValues("local"),
	}
}

// Decide asks the store and answers what it left Undecided: FailAllow makes it
// Allowed, FailDeny makes it Denied, FailLocal what Local decides, all Degraded;
// FailError leaves it. A request whose deadline has passed is not asked: nobody
// waits for it.
func (p *FailurePolicy) Decide(ctx context.Context, asks []algorithm.Ask, out []algorithm.Decision) {
	out = out[:len(asks)]
	now := time.Now()
	if expired(asks, now) {
		p.decideRest(ctx, now, asks, out)
	} else {
		p.decide(ctx, now, asks, out)
	}
	p.answerRest(now, asks, out)
}

// answerRest answers what the store, asked at an instant, left Undecided.
func (p *FailurePolicy) answerRest(asked time.Time, asks []algorithm.Ask, out []algorithm.Decision) {
	first := undecided(out)
	if first < 0 {
		return
	}
	if p.local != nil {
		p.here.Add(float64(p.local.decide(asked, asks, out)))
	}
	for i := first; i < len(out); i++ {
		if out[i].Outcome == algorithm.Undecided {
			p.answer(&asks[i], &out[i])
		}
	}
}

// undecided returns the first decision that was not made; -1 if all were.
func undecided(out []algorithm.Decision) int {
	for i := range out {
		if out[i].Outcome == algorithm.Undecided {
			return i
		}
	}
	return -1
}

func (p *FailurePolicy) decide(ctx context.Context, now time.Time, asks []algorithm.Ask, out []algorithm.Decision) {
	if !p.instant {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, p.deadline(asks, now))
		defer cancel()
	}
	p.next.Decide(ctx, asks, out)
}

// decideRest asks for the requests of a batch that somebody still waits for.
func (p *FailurePolicy) decideRest(ctx context.Context, now time.Time, asks []algorithm.Ask, out []algorithm.Decision) {
	var rest subset
	for from, to := range groups(asks) {
		if expired(asks[from:to], now) {
			fail(out[from:to], ErrTimeout)
			continue
		}
		for i := from; i < to; i++ {
			rest.add(&asks[i], i)
		}
	}
	if len(rest.asks) == 0 {
		return
	}
	rest.seal()
	p.decide(ctx, now, rest.asks, rest.out)
	rest.deliver(out)
}

// expired reports whether the deadline of any of the asks has passed.
func expired(asks []algorithm.Ask, now time.Time) bool {
	for i := range asks {
		if end := asks[i].Deadline; !end.IsZero() && !now.Before(end) {
			return true
		}
	}
	return false
}

// deadline is the earliest of the timeout and the deadlines of the requests.
func (p *FailurePolicy) deadline(asks []algorithm.Ask, now time.Time) time.Time {
	deadline := now.Add(p.timeout)
	for i := range asks {
		if end := asks[i].Deadline; !end.IsZero() && end.Before(deadline) {
			deadline = end
		}
	}
	return deadline
}

// answer decides in place of the store.
func (p *FailurePolicy) answer(ask *algorithm.Ask, d *algorithm.Decision) {
	if d.Err == nil {
		d.Err = ErrUnavailable
	}
	hits := max(0, ask.Hits)
	switch ask.OnStoreError {
	case algorithm.FailAllow:
		*d = algorithm.Decision{
			Outcome: algorithm.Allowed, Degraded: true, Err: d.Err,
			Remaining: max(0, ask.Limit.Capacity-min(hits, ask.Limit.Capacity)),
		}
		p.open.Inc()
	case algorithm.FailDeny:
		denyInPlace(ask, d)
		p.shut.Inc()
	default:
		p.failed.Inc()
	}
}

// denyInPlace denies in place of the store, and keeps the reason.
func denyInPlace(ask *algorithm.Ask, d *algorithm.Decision) {
	*d = algorithm.Decision{
		Outcome: algorithm.Denied, Degraded: true, Err: d.Err,
		Before: ask.Limit.Capacity, After: ask.Limit.Capacity,
		RetryAfter: degradedWait, Reset: degradedWait,
	}
}
