package tracing

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics count requests that were to be traced.
type metrics struct{ sent, lost, leftOut prometheus.Counter }

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "ratelimitd_traced_requests_total",
		Help: "Requests that were to be traced, by what became of their spans: sent, lost (the collector did not take them), left_out (as many as may be were waiting to be sent).",
	}, []string{"outcome"})
	if reg != nil {
		if err := reg.Register(requests); err != nil {
			return nil, fmt.Errorf("register the metrics of tracing: %w", err)
		}
	}
	return &metrics{
		sent: requests.WithLabelValues("sent"), lost: requests.WithLabelValues("lost"), leftOut: requests.WithLabelValues("left_out"),
	}, nil
}
