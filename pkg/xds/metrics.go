package xds

import "github.com/prometheus/client_golang/prometheus"

// metrics tells Prometheus about a client.
type metrics struct {
	client         *Client
	taken, refused prometheus.Counter
	connected      *prometheus.Desc
}

func newMetrics(c *Client) *metrics {
	responses := func(result string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{
			Name:        "ratelimitd_xds_responses_total",
			Help:        "Responses of the control plane, by what became of them.",
			ConstLabels: prometheus.Labels{"result": result},
		})
	}
	return &metrics{
		client:  c,
		taken:   responses("acknowledged"),
		refused: responses("refused"),
		connected: prometheus.NewDesc("ratelimitd_xds_connected",
			"1 if there is a stream to the control plane, 0 if not.", nil, nil),
	}
}

// Describe is for package prometheus.
func (m *metrics) Describe(out chan<- *prometheus.Desc) {
	out <- m.taken.Desc()
	out <- m.refused.Desc()
	out <- m.connected
}

// Collect is for package prometheus.
func (m *metrics) Collect(out chan<- prometheus.Metric) {
	out <- m.taken
	out <- m.refused
	connected := 0.0
	if m.client.Err() == nil {
		connected = 1
	}
	out <- prometheus.MustNewConstMetric(m.connected, prometheus.GaugeValue, connected)
}
