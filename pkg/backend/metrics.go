package backend

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/sony/gobreaker/v2"
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

// redisMetrics are those of one Redis, and the measures of the store that it is,
// or is part of.
type redisMetrics struct {
	measures
	up          prometheus.Gauge
	calls, asks prometheus.Counter
	scriptLoads prometheus.Counter
	transitions transitions
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
