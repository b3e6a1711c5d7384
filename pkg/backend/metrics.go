package backend

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/sony/gobreaker/v2"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// durationBuckets reach from a decision in memory to a time-out, in seconds.
var durationBuckets = []float64{1e-6, 1e-5, 1e-4, .00025, .0005, .001, .0025, .005, .01, .02, .05, .1, .25, 1}

func newDuration(reg prometheus.Registerer, store string) prometheus.Histogram {
	return promauto.With(reg).NewHistogram(prometheus.HistogramOpts{
		Name:        "ratelimitd_store_duration_seconds",
		Help:        "Time that the store took for a batch of decisions.",
		ConstLabels: prometheus.Labels{"store": store},
		Buckets:     durationBuckets,
	})
}

// failures counts undecided requests by the kind of the reason.
type failures map[string]prometheus.Counter

func newFailures(reg prometheus.Registerer, store string) failures {
	vec := promauto.With(reg).NewCounterVec(prometheus.CounterOpts{
		Name:        "ratelimitd_store_errors_total",
		Help:        "Requests that the store did not decide, by reason.",
		ConstLabels: prometheus.Labels{"store": store},
	}, []string{"kind"})
	f := make(failures)
	for _, kind := range errorKinds {
		f[kind] = vec.WithLabelValues(kind)
	}
	return f
}

func (f failures) add(err error, requests int) { f[kindOf(err)].Add(float64(requests)) }

type memoryMetrics struct {
	duration prometheus.Observer
	failures failures
	evicted  prometheus.Counter
}

func newMemoryMetrics(reg prometheus.Registerer, keys func() int) *memoryMetrics {
	promauto.With(reg).NewGaugeFunc(prometheus.GaugeOpts{
		Name: "ratelimitd_memory_keys",
		Help: "Keys that the memory store holds.",
	}, func() float64 { return float64(keys()) })
	return &memoryMetrics{
		duration: newDuration(reg, "memory"),
		failures: newFailures(reg, "memory"),
		evicted: promauto.With(reg).NewCounter(prometheus.CounterOpts{
			Name: "ratelimitd_memory_evicted_live_total",
			Help: "Keys that the memory store dropped for want of room although they had hits in use.",
		}),
	}
}

// measures are what a store in Redis, be it one or two, or in memcached is measured
// by.
type measures struct {
	duration prometheus.Observer
	failures failures
	undos    undos
}

func newMeasures(reg prometheus.Registerer, store, deniedBy string) measures {
	return measures{newDuration(reg, store), newFailures(reg, store), newUndos(reg, deniedBy)}
}

// redisMetrics are those of one Redis, and the measures of the store that it is,
// or is part of.
type redisMetrics struct {
	measures
	up          prometheus.Gauge
	calls, asks prometheus.Counter
	scriptLoads prometheus.Counter
	transitions transitions
}

// undos count charges that are given back since their request was denied.
type undos struct{ undone, failed prometheus.Counter }

// newUndos returns what counts those of requests that somebody denied: another
// slot of the Cluster or the other of two Redis (slot), another counter in
// memcached (counter), or [Local] (local).
func newUndos(reg prometheus.Registerer, deniedBy string) undos {
	counter := func(name, help string) prometheus.Counter {
		return promauto.With(reg).NewCounter(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: prometheus.Labels{"denied_by": deniedBy}})
	}
	return undos{
		undone: counter("ratelimitd_redis_undone_total", "Charges given back because the same request was denied, by another hash slot of the Cluster, by the other of two Redis, by another counter in memcached, or locally."),
		failed: counter("ratelimitd_redis_undo_failed_total", "Charges of requests that were denied which could not be given back, or not surely."),
	}
}

// count counts what became of charges that were to be given back.
func (u *undos) count(back []algorithm.Decision) {
	for i := range back {
		if back[i].Outcome == algorithm.Allowed {
			u.undone.Inc()
		} else {
			u.failed.Inc()
		}
	}
}

// transitions count the new states of the circuit breakers of a store.
type transitions struct {
	store string // redis or memcached
	to    map[gobreaker.State]prometheus.Counter
}

func newTransitions(reg prometheus.Registerer, store string) transitions {
	vec := promauto.With(reg).NewCounterVec(prometheus.CounterOpts{
		Name: "ratelimitd_" + store + "_breaker_transitions_total",
		Help: "Times that the circuit breaker of a server went over to a state.",
	}, []string{"to"})
	return transitions{store, map[gobreaker.State]prometheus.Counter{
		gobreaker.StateClosed:   vec.WithLabelValues("closed"),
		gobreaker.StateHalfOpen: vec.WithLabelValues("half_open"),
		gobreaker.StateOpen:     vec.WithLabelValues("open"),
	}}
}

// showBreakers shows how many breakers of a store are shut.
func showBreakers(reg prometheus.Registerer, store string, shut func() int) {
	promauto.With(reg).NewGaugeFunc(prometheus.GaugeOpts{
		Name: "ratelimitd_" + store + "_breakers_open",
		Help: "Servers that are left alone, but for a few probes, since calls to them failed.",
	}, func() float64 { return float64(shut()) })
}

func newRedisMetrics(reg prometheus.Registerer, m measures) *redisMetrics {
	counter := func(name, help string) prometheus.Counter {
		return promauto.With(reg).NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	return &redisMetrics{
		measures: m,
		up: promauto.With(reg).NewGauge(prometheus.GaugeOpts{
			Name: "ratelimitd_redis_up",
			Help: "1 when Redis answered the last time it was asked, about a second ago.",
		}),
		calls:       counter("ratelimitd_redis_calls_total", "Script calls sent to Redis."),
		asks:        counter("ratelimitd_redis_asks_total", "Keys asked for in those calls: the more for each call, the more was merged."),
		scriptLoads: counter("ratelimitd_redis_script_loads_total", "Calls that carried the script's text because Redis did not hold it."),
		transitions: newTransitions(reg, "redis"),
	}
}

type memcachedMetrics struct {
	measures
	up                 prometheus.Gauge
	reads, readsFailed prometheus.Counter
	requested, found   prometheus.Counter
	writes             map[string]writeMetrics // by verb
	transitions        transitions
}

// writeMetrics count what became of writes.
type writeMetrics struct{ stored, lost, failed prometheus.Counter }

func newMemcachedMetrics(reg prometheus.Registerer) *memcachedMetrics {
	counter := func(name, help string) prometheus.Counter {
		return promauto.With(reg).NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	reads := promauto.With(reg).NewCounterVec(prometheus.CounterOpts{
		Name: "ratelimitd_memcached_reads_total", Help: "Calls that read counters, any number of them at once.",
	}, []string{"result"})
	writes := promauto.With(reg).NewCounterVec(prometheus.CounterOpts{
		Name: "ratelimitd_memcached_writes_total",
		Help: "Counters written, with add where there was none, else with cas: stored, or decided anew as others were quicker (conflict), or failed.",
	}, []string{"verb", "result"})
	m := &memcachedMetrics{
		measures: newMeasures(reg, "memcached", "counter"),
		up: promauto.With(reg).NewGauge(prometheus.GaugeOpts{
			Name: "ratelimitd_memcached_up",
			Help: "1 when a server answered the last time that all were asked, about a second ago.",
		}),
		reads: reads.WithLabelValues("ok"), readsFailed: reads.WithLabelValues("error"),
		requested:   counter("ratelimitd_memcached_keys_requested_total", "Counters asked for in those calls."),
		found:       counter("ratelimitd_memcached_keys_found_total", "Counters that the servers held."),
		writes:      make(map[string]writeMetrics),
		transitions: newTransitions(reg, "memcached"),
	}
	for _, verb := range []string{"add", "cas"} {
		result := func(name string) prometheus.Counter { return writes.WithLabelValues(verb, name) }
		m.writes[verb] = writeMetrics{result("stored"), result("conflict"), result("error")}
	}
	return m
}

func (m *memcachedMetrics) read(requested, found int, err error) {
	if err != nil {
		m.readsFailed.Inc()
		return
	}
	m.reads.Inc()
	m.requested.Add(float64(requested))
	m.found.Add(float64(found))
}

func (m *memcachedMetrics) wrote(verb string, lost bool, err error) {
	switch w := m.writes[verb]; {
	case err != nil:
		w.failed.Inc()
	case lost:
		w.lost.Inc()
	default:
		w.stored.Inc()
	}
}
