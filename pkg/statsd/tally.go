package statsd

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
	"github.com/ratelimitd/ratelimitd/pkg/descriptors"
)

const (
	// DefaultNearLimitRatio holds where [Options] say 0.
	DefaultNearLimitRatio = 0.8

	// DefaultMaxNames holds where [Options] say 0.
	DefaultMaxNames = 1000

	// DefaultMaxNamesInAll holds where [Options] say 0.
	DefaultMaxNamesInAll = 10_000

	// domainsInAll bounds the names of unknown domains.
	domainsInAll = 1000

	// overflowDomain stands for what would be one too many.
	overflowDomain = "overflow"
)

// Options of a [Tally].
type Options struct {
	// NearLimitRatio is from which part of a limit on hits are near it; 0
	// means [DefaultNearLimitRatio].
	NearLimitRatio float64

	// MaxNames is how many names a rule may have that have values of requests
	// in them, and how many the limits may have that requests bring along for
	// one domain. What would be one more is counted under the rule's name and
	// _overflow. 0 means [DefaultMaxNames].
	MaxNames int

	// MaxNamesInAll is how many such names there may be over all rules; 0 means
	// [DefaultMaxNamesInAll]. While an [Exhibit] is scraped a name takes up to
	// 8 kB.
	MaxNamesInAll int

	// Methods are those of gRPC whose calls are counted besides ShouldRateLimit.
	Methods []string
}

// Tally counts what is decided. It is safe for concurrent use.
type Tally struct {
	options Options
	calls   []*calls // of ShouldRateLimit, then of the other methods

	storeErrors  atomic.Uint64
	otherErrors  atomic.Uint64
	globalShadow atomic.Uint64

	sent  sentTotals   // belongs to the sink
	taken atomic.Int64 // names that have values of requests in them

	mu         sync.Mutex // taken before that of a family
	generation int        // of rules
	all        map[string]*named
	families   map[string]*family
	unknown    map[string]*single // domains
}

// named is the counters of a name.
type named struct {
	name string
	counters
	sent       [countersCount]uint64 // belongs to the sink
	generation int                   // of the last rules that have the name
}

// single is one counter by itself.
type single struct {
	atomic.Uint64
	sent uint64 // belongs to the sink
}

// NewTally returns a tally that has counted nothing.
func NewTally(o Options) *Tally {
	o.NearLimitRatio = cmp.Or(o.NearLimitRatio, DefaultNearLimitRatio)
	o.MaxNames = cmp.Or(max(o.MaxNames, 0), DefaultMaxNames)
	o.MaxNamesInAll = cmp.Or(max(o.MaxNamesInAll, 0), DefaultMaxNamesInAll)
	t := &Tally{options: o, all: make(map[string]*named), families: make(map[string]*family), unknown: make(map[string]*single)}
	for _, method := range append([]string{shouldRateLimit}, o.Methods...) {
		t.calls = append(t.calls, newCalls(method))
	}
	return t
}

// Sheet counts by one set of rules. It is safe for concurrent use.
type Sheet struct {
	tally     *Tally
	limits    []place // by Limit.Index
	overrides map[*descriptors.Domain]*family
}

// place is where a limit's decisions are counted.
type place struct {
	near   int64
	fixed  *named  // nil: the name depends on the request
	family *family // else nil
}

// Sheet returns what counts by the rules. Names that rules before had go on, the
// others end once all that they have counted has been told.
func (t *Tally) Sheet(rules *descriptors.Rules) *Sheet {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.generation++
	s := &Sheet{tally: t, limits: make([]place, len(rules.Limits())), overrides: make(map[*descriptors.Domain]*family)}
	before := t.families
	t.families = make(map[string]*family)
	for i, l := range rules.Limits() {
		p := patternOf(l)
		s.limits[i].near = nearOf(l.Limit.Capacity, t.options.NearLimitRatio)
		if p.isFixed() {
			s.limits[i].fixed = t.named(p.written)
		} else {
			s.limits[i].family = t.familyOf(l.ID, p, before)
		}
	}
	for _, d := range rules.Domains() {
		s.overrides[d] = t.familyOf(d.Name+"\x00", pattern{domain: d.Name}, before)
	}
	for _, old := range before {
		old.leave(t)
	}
	return s
}

// familyOf returns the family of an identity, with the members that it had.
// t.mu is held.
func (t *Tally) familyOf(id string, p pattern, before map[string]*family) *family {
	f := before[id]
	if f != nil && f.pattern.equal(&p) {
		delete(before, id)
		f.stay(t.generation)
	} else {
		f = &family{pattern: p}
	}
	t.families[id] = f
	return f
}

// equal reports whether two patterns make the same names.
func (p *pattern) equal(o *pattern) bool {
	same := func(a, b descriptors.PathEntry) bool {
		return a.Key == b.Key && a.Value == b.Value && a.Share == b.Share && a.ValueToMetric == b.ValueToMetric
	}
	return p.domain == o.domain && p.detailed == o.detailed && p.tail == o.tail && slices.EqualFunc(p.path, o.path, same)
}

// named returns the counters of a name, which is cleaned first. t.mu is held.
func (t *Tally) named(name string) *named {
	name = clean(name)
	n := t.all[name]
	if n == nil {
		n = &named{name: name}
		t.all[name] = n
	}
	n.generation = t.generation
	return n
}

// Count counts a decision on a limit for the entries of a request. It keeps
// nothing of its arguments.
func (s *Sheet) Count(l *descriptors.Limit, entries []descriptors.Entry, a *algorithm.Ask, d *algorithm.Decision) {
	if l.Index < 0 {
		s.overrides[l.Rule.Domain].member(s.tally, entries).count(nearOf(l.Limit.Capacity, s.tally.options.NearLimitRatio), a, d)
		return
	}
	at := &s.limits[l.Index]
	n := at.fixed
	if n == nil {
		n = at.family.member(s.tally, entries)
	}
	n.count(at.near, a, d)
}

// UnknownDomain counts descriptors of a domain that no policy names.
func (t *Tally) UnknownDomain(domain []byte, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.unknown[string(domain)]
	if c == nil {
		name := strings.Clone(string(domain))
		if len(t.unknown) >= domainsInAll || len(domain) > longestName {
			name = overflowDomain
		}
		if c = t.unknown[name]; c == nil {
			c = new(single)
			t.unknown[name] = c
		}
	}
	c.Add(uint64(n))
}

// Failed counts a request that was answered with an error, which is the
// store's or another.
func (t *Tally) Failed(store bool) {
	if store {
		t.storeErrors.Add(1)
	} else {
		t.otherErrors.Add(1)
	}
}

// Shadowed counts a request that was answered OK though it was over, because
// all of them are.
func (t *Tally) Shadowed() { t.globalShadow.Add(1) }
