package backend

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// PerSecond is a store in two Redis: one keeps the counters of limits per second,
// those whose window is one second, and the other one all other counters. Each
// has its own shape, connections, lanes, breakers and watch, so that what is wrong
// with one concerns the limits in it and no others.
//
// Both are asked at the same time. A request with limits in both is decided as
// one whose keys lie in several slots of a Cluster: see the package's text.
type PerSecond struct {
	perSecond, other *Redis
	measures         measures
	in               func(*algorithm.Limit) bool // whether a limit's counters are in perSecond
}

// NewPerSecond returns a store that connects when there is something to connect
// to, as [NewRedis] does. What is measured and logged of one Redis says which, as
// limits: per_second or other; what the store is measured by is one for both.
// The Registerer of other takes all of it.
func NewPerSecond(perSecond, other RedisOptions) (*PerSecond, error) {
	reg := other.Registerer
	perSecond, other = perSecond.oneOfTwo("per_second", reg), other.oneOfTwo("other", reg)
	fast, err := connectable(perSecond)
	if err != nil {
		return nil, fmt.Errorf("limits per second: %w", err)
	}
	slow, err := connectable(other)
	if err != nil {
		_ = fast.Close() // it has not connected
		return nil, err
	}
	m := newMeasures(reg, "redis", "slot")
	return &PerSecond{perSecond: newRedis(fast, perSecond, m), other: newRedis(slow, other, m), measures: m, in: isPerSecond}, nil
}

// oneOfTwo has metrics and lines of the log say which limits they are about.
func (o RedisOptions) oneOfTwo(limits string, reg prometheus.Registerer) RedisOptions {
	o = o.withDefaults()
	o.Registerer = prometheus.WrapRegistererWith(prometheus.Labels{"limits": limits}, reg)
	o.Log = o.Log.With("limits", limits)
	return o
}

// isPerSecond reports whether a limit is one per second.
func isPerSecond(l *algorithm.Limit) bool { return l.Window == time.Second }

// PerSecond and Other return the two: they are closed with the whole.
func (p *PerSecond) PerSecond() *Redis { return p.perSecond }

// Other is that of all other limits.
func (p *PerSecond) Other() *Redis { return p.other }

// of returns the Redis of a limit.
func (p *PerSecond) of(l *algorithm.Limit) *Redis {
	if p.in(l) {
		return p.perSecond
	}
	return p.other
}

// Decide decides the asks. See [PerSecond].
func (p *PerSecond) Decide(ctx context.Context, asks []algorithm.Ask, out []algorithm.Decision) {
	if len(asks) == 0 {
		return
	}
	if r := p.of(asks[0].Limit); p.allIn(r, asks) {
		r.Decide(ctx, asks, out)
		return
	}
	out = out[:len(asks)]
	began := time.Now()
	decideByPlace(ctx, p, asks, out)
	p.measures.duration.Observe(time.Since(began).Seconds())
	p.measures.report(p, asks, out)
}

func (p *PerSecond) allIn(r *Redis, asks []algorithm.Ask) bool {
	for i := range asks {
		if p.of(asks[i].Limit) != r {
			return false
		}
	}
	return true
}

// placeOf implements places.
func (p *PerSecond) placeOf(ask *algorithm.Ask) place { return p.of(ask.Limit).placeOf(ask) }

// strained implements queues.
func (p *PerSecond) strained() int64 { return p.perSecond.strained() + p.other.strained() }

// strainOf implements queues.
func (p *PerSecond) strainOf(ctx context.Context, ask *algorithm.Ask) *strain {
	return p.of(ask.Limit).strainOf(ctx, ask)
}

// Ready reports, without asking, whether both Redis answered when they were last
// asked: nil, or which did not, and why.
func (p *PerSecond) Ready() error {
	var perSecond, other error
	if err := p.perSecond.Ready(); err != nil {
		perSecond = fmt.Errorf("the Redis of limits per second: %w", err)
	}
	if err := p.other.Ready(); err != nil {
		other = fmt.Errorf("the Redis of all other limits: %w", err)
	}
	return errors.Join(perSecond, other)
}

// Close ends the goroutines and connections of both.
func (p *PerSecond) Close() error { return errors.Join(p.perSecond.Close(), p.other.Close()) }
