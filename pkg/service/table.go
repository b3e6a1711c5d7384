package service

import (
	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
	"github.com/ratelimitd/ratelimitd/pkg/descriptors"
)

// table is what a request needs of a set of rules, worked out when they are
// loaded, so that a request only reads and adds. It is immutable but for the
// counters and the overrides.
type table struct {
	rules   *descriptors.Rules
	views   []view // by Limit.Index
	domains map[*descriptors.Domain]*domainSeries
	series  map[seriesKey]*series
	options Options // of the service
	sheet   Sheet   // nil: there is no meter

	overrides overrides
}

// newTable prepares a set of rules for a service of the options. What the one before it, or nil, counted of
// the same domains and rules goes on.
func newTable(rules *descriptors.Rules, o Options, before *table) *table {
	t := &table{
		rules:   rules,
		options: o,
		views:   make([]view, len(rules.Limits())),
		domains: make(map[*descriptors.Domain]*domainSeries),
		series:  make(map[seriesKey]*series),
	}
	if o.Meter != nil {
		t.sheet = o.Meter.Sheet(rules)
	}
	old := make(map[string]*domainSeries)
	if before != nil {
		for domain, s := range before.domains {
			old[domain.Name] = s
		}
	}
	for _, domain := range rules.Domains() {
		s := old[domain.Name]
		if s == nil {
			s = new(domainSeries)
		}
		t.domains[domain] = s
	}
	for i, limit := range rules.Limits() {
		t.views[i] = t.view(limit, limit.Rule.Domain.Counting, t.seriesOf(limit, before))
	}
	return t
}

// view makes the view of a limit, as the options have it.
func (t *table) view(l *descriptors.Limit, counting algorithm.Counting, s *series) view {
	v := newView(l, counting, s)
	v.ask.Quota = v.ask.Quota || t.options.Quota
	if l.Limit.Algorithm == algorithm.FixedWindow && l.Limit.Calendar == nil && t.options.WindowReset {
		v.window = l.Limit.Window
	}
	return v
}

// seriesOf returns the counters of a limit. Two limits of one label share them.
func (t *table) seriesOf(l *descriptors.Limit, before *table) *series {
	key := seriesKey{l.Rule.Domain.Name, l.ID}
	s := t.series[key]
	if s == nil && before != nil {
		s = before.series[key]
	}
	if s == nil {
		s = new(series)
	}
	t.series[key] = s
	return s
}
