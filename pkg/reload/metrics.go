package reload

import "github.com/prometheus/client_golang/prometheus"

// metrics tells Prometheus about a loader.
type metrics struct {
	loader          *Loader
	loaded, refused prometheus.Counter

	info, good, since *prometheus.Desc
}

func newMetrics(l *Loader) *metrics {
	loads := func(result string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{
			Name:        "ratelimitd_config_loads_total",
			Help:        "Changes of the policies, by what became of them.",
			ConstLabels: prometheus.Labels{"result": result},
		})
	}
	return &metrics{
		loader:  l,
		loaded:  loads("loaded"),
		refused: loads("refused"),
		info: prometheus.NewDesc("ratelimitd_config_info",
			"1, with the revision of the policies in force.", []string{"revision"}, nil),
		good: prometheus.NewDesc("ratelimitd_config_last_load_successful",
			"1 if the policies as they are now are in force, 0 if they were refused.", nil, nil),
		since: prometheus.NewDesc("ratelimitd_config_last_success_timestamp_seconds",
			"When the rules in force were loaded.", nil, nil),
	}
}

// Describe is for package prometheus.
func (m *metrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.loaded.Desc(), m.refused.Desc(), m.info, m.good, m.since} {
		out <- d
	}
}

// Collect is for package prometheus.
func (m *metrics) Collect(out chan<- prometheus.Metric) {
	out <- m.loaded
	out <- m.refused
	status, good := m.loader.Status(), 0.0
	if status.Rules != nil {
		out <- prometheus.MustNewConstMetric(m.info, prometheus.GaugeValue, 1, status.Rules.Revision())
		out <- prometheus.MustNewConstMetric(m.since, prometheus.GaugeValue, float64(status.Since.UnixMilli())/1000)
		if status.Err == nil {
			good = 1
		}
	}
	out <- prometheus.MustNewConstMetric(m.good, prometheus.GaugeValue, good)
}
