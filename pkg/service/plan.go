package service

import (
	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
	"github.com/ratelimitd/ratelimitd/pkg/descriptors"
)

// plan finds the limits of each descriptor of a request and turns them into
// asks. If there are more than most, it asks nothing and reports false. After
// it the values of the entries are hidden, if the rules want that.
func (b *batch) plan(t *table, domain *descriptors.Domain, r *request, p patience, most int) bool {
	first, firstKey := len(b.asks), len(b.keys)
	list, rules := b.of(r), b.rules[r.descriptors.first:r.descriptors.last]
	for i := range list {
		d := &list[i]
		rules[i], d.brought = match(t, domain, d, b.entriesOf(d))
	}
	descriptors.Replaced(rules)
	for i := range list {
		d, rule := &list[i], rules[i]
		b.keys = t.rules.Hide(b.keys, rule, b.entriesOf(d))
		d.asks.first = len(b.asks)
		switch {
		case d.brought != nil:
			key := len(b.keys)
			b.keys = domain.AppendOverrideKey(b.keys, d.brought.limit, b.entriesOf(d))
			b.ask(r, d, d.brought, key, p)
		case rule != nil && !rule.Unlimited:
			for _, limit := range rule.Limits {
				key := len(b.keys)
				b.keys = limit.AppendKey(b.keys, b.entriesOf(d))
				b.ask(r, d, &t.views[limit.Index], key, p)
			}
		}
		d.asks.last = len(b.asks)
		if len(b.asks)-first > most {
			b.asks, b.views, b.keys = b.asks[:first], b.views[:first], b.keys[:firstKey]
			return false
		}
	}
	r.asks.last = len(b.asks)
	return true
}

// match returns the rule of a descriptor or the limit it brings; neither if no
// rule concerns it, or if it names nothing to be counted. A limit with an
// unknown unit is ignored: Envoy sends it when a client's metadata says so, and
// an error would let the request through.
func match(t *table, domain *descriptors.Domain, d *descriptor, entries []descriptors.Entry) (*descriptors.Rule, *view) {
	if d.hasOverride && len(entries) > 0 {
		if v := t.overrideView(domain, d.override); v != nil {
			return nil, v
		}
	}
	rule := domain.Match(entries)
	if rule == nil {
		t.domains[domain].unmatched.Add(1)
	}
	return rule, nil
}

// ask adds an ask of a limit, for the counter whose key is the end of b.keys
// from the given place.
func (b *batch) ask(r *request, d *descriptor, v *view, key int, p patience) {
	b.asks = append(b.asks, v.ask)
	a := &b.asks[len(b.asks)-1]
	a.Key = b.keys[key:len(b.keys):len(b.keys)]
	a.Hits = r.hits(d)
	if d.isNegative {
		a.Mode = algorithm.GiveBack
	}
	a.Group = int32(len(b.requests) - 1)
	a.Deadline, a.Gone = p.until, p.gone
	b.views = append(b.views, v)
}
