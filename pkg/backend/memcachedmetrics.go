package backend

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

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
