package statsd

import (
	"maps"
	"sync/atomic"
)

// The names of what is not counted by rule.
const (
	rulePrefix    = "ratelimit.service.rate_limit."
	unknownSuffix = ".domain_not_found"
)

// counter is a counter as a sink sees it.
type counter struct {
	name  string
	total uint64
	sent  *uint64 // how much of that was told before; belongs to the sink
}

// tally's own counters, and what was sent of each.
type sentTotals struct{ storeErrors, otherErrors, globalShadow uint64 }

// each calls tell for every counter that counted something since it was sent, or
// for all that ever counted something. No lock is held meanwhile.
func (t *Tally) each(all bool, tell func(counter)) {
	changed := func(name string, n *atomic.Uint64, sent *uint64) {
		if total := n.Load(); total != *sent || all && total > 0 {
			tell(counter{name, total, sent})
		}
	}
	for _, c := range t.calls {
		changed(c.requestsName, &c.requests, &c.sent)
	}
	for _, c := range []struct {
		name string
		n    *atomic.Uint64
		sent *uint64
	}{
		{"ratelimit.service.call.should_rate_limit.redis_error", &t.storeErrors, &t.sent.storeErrors},
		{"ratelimit.service.call.should_rate_limit.service_error", &t.otherErrors, &t.sent.otherErrors},
		{"ratelimit.service.global_shadow_mode", &t.globalShadow, &t.sent.globalShadow},
	} {
		changed(c.name, c.n, c.sent)
	}
	rules, unknown := t.snapshot()
	for _, n := range rules {
		for i := range n.counters {
			if total := n.counters[i].Load(); total != n.sent[i] || all && total > 0 {
				changed(rulePrefix+n.name+"."+suffixes[i], &n.counters[i], &n.sent[i])
			}
		}
	}
	for domain, c := range unknown {
		changed(rulePrefix+clean(domain)+unknownSuffix, &c.Uint64, &c.sent)
	}
}

// snapshot returns all counters that there are.
func (t *Tally) snapshot() ([]*named, map[string]*single) {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make([]*named, 0, len(t.all))
	for _, n := range t.all {
		all = append(all, n)
	}
	return all, maps.Clone(t.unknown)
}

// forget drops names that no rule in force has, once all that they counted was
// sent.
func (t *Tally) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, n := range t.all {
		if n.generation < t.generation && n.isSent() {
			delete(t.all, name)
		}
	}
}

func (n *named) isSent() bool {
	for i := range n.counters {
		if n.counters[i].Load() != n.sent[i] {
			return false
		}
	}
	return true
}
