package service

import (
	"errors"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// outcome is what became of one ask, for the counters of its rule. Each ask
// has one outcome, so their sum is the number of decisions.
type outcome uint8

const (
	within       outcome = iota // allowed, with more than a fifth of the limit left
	near                        // allowed, with 80 % of the limit in use
	over                        // denied
	never                       // denied, and waiting will not help: the cost is above the limit
	shadowOver                  // would have been denied but for shadow_mode
	givenBack                   // hits were returned
	undecided                   // the store did not decide
	outcomeCount                // the number of outcomes
)

var outcomeNames = [outcomeCount]string{"within_limit", "near_limit", "over_limit", "never_fits", "shadow_over_limit", "given_back", "undecided"}

// outcomeOf sorts a decision.
func outcomeOf(a *algorithm.Ask, d *algorithm.Decision) outcome {
	switch {
	case d.Outcome == algorithm.Undecided:
		return undecided
	case a.Mode == algorithm.GiveBack:
		return givenBack
	case d.Outcome == algorithm.Allowed && d.After*5 >= a.Limit.Capacity*4 && !d.Degraded:
		return near
	case d.Outcome == algorithm.Allowed:
		return within
	case a.Shadow:
		return shadowOver
	case d.Never:
		return never
	default:
		return over
	}
}

// series are the counters of one limit.
type series struct {
	decisions [outcomeCount]atomic.Uint64
	hits      atomic.Uint64
}

// tally is a number of decisions that came to the same.
type tally struct {
	series    *series // nil: there are none
	outcome   outcome
	decisions int
	hits      int64
}

// add adds the tally to its series.
func (t *tally) add() {
	if t.series == nil {
		return
	}
	t.series.decisions[t.outcome].Add(uint64(t.decisions))
	if t.hits > 0 {
		t.series.hits.Add(uint64(t.hits))
	}
}

// seriesKey labels the series of a limit. Both parts come from the policy.
type seriesKey struct{ domain, rule string }

// domainSeries are the counters of one domain.
type domainSeries struct {
	unmatched atomic.Uint64 // descriptors that no rule concerns
	overrides series        // limits that requests brought
}

// metrics are the counters of a [Service]. Labels come from the policy only,
// so that no request can add a series; rules and domains that are no longer
// in force lose theirs, and those that stay keep their counts.
type metrics struct {
	table *atomic.Pointer[table]

	duration       [results]histogram
	errors         [kinds]prometheus.Counter
	panics         prometheus.Counter
	unknownDomains prometheus.Counter
	tooLarge       prometheus.Counter
}

var (
	decisionsDesc = prometheus.NewDesc("ratelimitd_decisions_total",
		"Decisions by rule. Outcomes exclude each other: near_limit is allowed with 80 % of the limit in use, never_fits is denied for a cost above the limit.",
		[]string{"domain", "rule", "outcome"}, nil)
	hitsDesc = prometheus.NewDesc("ratelimitd_hits_total",
		"Hits charged by rule.", []string{"domain", "rule"}, nil)
	unmatchedDesc = prometheus.NewDesc("ratelimitd_unmatched_descriptors_total",
		"Descriptors of a known domain that no rule concerns.", []string{"domain"}, nil)
	durationDesc = prometheus.NewDesc("ratelimitd_request_duration_seconds",
		"Time from the request's bytes to the reply's. Requests that arrive together are answered together, and so have one duration.",
		[]string{"outcome"}, nil)
)

// overrideRule is the rule label of limits that requests brought.
const overrideRule = "(override)"

// newMetrics makes the metrics and registers them, if there is a registerer.
func newMetrics(t *atomic.Pointer[table], reg prometheus.Registerer) (*metrics, error) {
	failures := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "ratelimitd_errors_total", Help: "Calls answered with an error.",
	}, []string{"kind"})
	m := &metrics{
		table:          t,
		panics:         prometheus.NewCounter(prometheus.CounterOpts{Name: "ratelimitd_panics_total", Help: "Panics caught while handling a call."}),
		unknownDomains: prometheus.NewCounter(prometheus.CounterOpts{Name: "ratelimitd_unknown_domain_requests_total", Help: "Requests for a domain that no policy names, which are allowed."}),
		tooLarge:       prometheus.NewCounter(prometheus.CounterOpts{Name: "ratelimitd_too_large_requests_total", Help: "Requests denied for their size or their number of descriptors, entries or limits."}),
	}
	for k := range kinds {
		m.errors[k] = failures.WithLabelValues(k.String())
	}
	if reg == nil {
		return m, nil
	}
	var failed error
	for _, c := range []prometheus.Collector{failures, m.panics, m.unknownDomains, m.tooLarge, m} {
		failed = errors.Join(failed, reg.Register(c))
	}
	return m, failed
}

// Describe implements [prometheus.Collector].
func (m *metrics) Describe(descs chan<- *prometheus.Desc) {
	descs <- decisionsDesc
	descs <- hitsDesc
	descs <- unmatchedDesc
	descs <- durationDesc
}

// Collect implements [prometheus.Collector] for the rules in force. Outcomes
// other than within and over show once they have happened.
func (m *metrics) Collect(out chan<- prometheus.Metric) {
	for i := range m.duration {
		m.duration[i].collect(out, durationDesc, [results]string{"ok", "over_limit", "error"}[i])
	}
	t := m.table.Load()
	if t == nil {
		return
	}
	for key, s := range t.series {
		s.collect(out, key)
	}
	for domain, s := range t.domains {
		out <- counter(unmatchedDesc, &s.unmatched, domain.Name)
		s.overrides.collect(out, seriesKey{domain.Name, overrideRule})
	}
}

func (s *series) collect(out chan<- prometheus.Metric, key seriesKey) {
	for o := range outcomeCount {
		if n := s.decisions[o].Load(); n > 0 || (o == within || o == over) && key.rule != overrideRule {
			out <- counter(decisionsDesc, &s.decisions[o], key.domain, key.rule, outcomeNames[o])
		}
	}
	if key.rule != overrideRule || s.hits.Load() > 0 {
		out <- counter(hitsDesc, &s.hits, key.domain, key.rule)
	}
}

func counter(d *prometheus.Desc, n *atomic.Uint64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n.Load()), labels...)
}
