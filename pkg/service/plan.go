package service

import (
	"context"
	"time"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
	"github.com/ratelimitd/ratelimitd/pkg/descriptors"
)

// call is the working memory of one request. It is reused.
type call struct {
	request *Request
	rules   []*descriptors.Rule // by descriptor; nil: no rule, or replaced
	spans   []span              // by descriptor: which asks are its own

	asks      []algorithm.Ask
	limits    []*descriptors.Limit // by ask
	views     []*view              // by ask
	decisions []algorithm.Decision // by ask
	keys      []byte               // what the asks' keys point into
}

// span is what a descriptor became: asks[first:last] of the call, for its rule
// or for the limit it brought.
type span struct {
	override    *descriptors.Limit
	first, last int
}

// reset makes c ready for a request and keeps its memory.
func (c *call) reset(r *Request) {
	clear(c.rules)
	clear(c.asks)
	clear(c.limits)
	clear(c.views)
	clear(c.decisions)
	*c = call{
		request: r, rules: c.rules[:0], spans: c.spans[:0], asks: c.asks[:0], limits: c.limits[:0],
		views: c.views[:0], decisions: c.decisions[:0], keys: c.keys[:0],
	}
}

// large reports whether c holds too much memory to be kept for another call.
func (c *call) large() bool {
	return cap(c.keys) > maxPooledBytes || cap(c.rules) > maxPooledDescriptors || cap(c.asks) > maxPooledDescriptors
}

// plan finds the limits of each descriptor and turns them into asks.
func (c *call) plan(ctx context.Context, t *table, domain *descriptors.Domain) {
	for i := range c.request.Descriptors {
		rule, override := c.match(t, domain, &c.request.Descriptors[i])
		c.rules = append(c.rules, rule)
		c.spans = append(c.spans, span{override: override})
	}
	descriptors.Replaced(c.rules)

	deadline, _ := ctx.Deadline()
	for i := range c.spans {
		d, s, rule := &c.request.Descriptors[i], &c.spans[i], c.rules[i]
		s.first = len(c.asks)
		switch {
		case s.override != nil:
			key := len(c.keys)
			c.keys = domain.AppendOverrideKey(c.keys, s.override, d.Entries)
			c.ask(d, s.override, t.overrideView(domain, s.override), domain.Counting, c.keys[key:], deadline)
		case rule != nil && !rule.Unlimited:
			for _, limit := range rule.Limits {
				key := len(c.keys)
				c.keys = limit.AppendKey(c.keys, d.Entries)
				c.ask(d, limit, &t.views[limit.Index], domain.Counting, c.keys[key:], deadline)
			}
		}
		s.last = len(c.asks)
	}
	c.decisions = append(c.decisions, make([]algorithm.Decision, len(c.asks))...)
}

// match returns the rule of a descriptor or the limit it brings; neither if no
// rule concerns it, or if it names nothing to be counted. A limit with an unknown unit is ignored: Envoy sends it
// when a client's metadata says so, and an error would let the request through.
func (c *call) match(t *table, domain *descriptors.Domain, d *Descriptor) (*descriptors.Rule, *descriptors.Limit) {
	if d.HasOverride && len(d.Entries) > 0 {
		if limit, ok := domain.Override(d.Override); ok {
			return nil, limit
		}
	}
	rule := domain.Match(d.Entries)
	if rule == nil {
		t.domains[domain].unmatched.Add(1)
	}
	return rule, nil
}

// ask adds one ask.
func (c *call) ask(d *Descriptor, l *descriptors.Limit, v *view, counting algorithm.Counting, key []byte, deadline time.Time) {
	mode := algorithm.Charge
	if d.IsNegative {
		mode = algorithm.GiveBack
	}
	c.asks = append(c.asks, algorithm.Ask{
		Key:          key,
		Limit:        l.Limit,
		Hits:         c.request.hits(d),
		Mode:         mode,
		Shadow:       l.Shadow,
		Quota:        l.Quota,
		Counting:     counting,
		Deadline:     deadline,
		OnStoreError: l.OnStoreError,
	})
	c.limits = append(c.limits, l)
	c.views = append(c.views, v)
}
