package service

import (
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

	overrides overrides
}

// newTable prepares a set of rules. What the one before it, or nil, counted of
// the same domains and rules goes on.
func newTable(rules *descriptors.Rules, before *table) *table {
	t := &table{
		rules:   rules,
		views:   make([]view, len(rules.Limits())),
		domains: make(map[*descriptors.Domain]*domainSeries),
		series:  make(map[seriesKey]*series),
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
		t.views[i] = newView(limit, limit.Rule.Domain.Counting, t.seriesOf(limit, before))
	}
	return t
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
