package transport

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/net/http2"
)

type metrics struct {
	accepted, closed, cutOff, refusedConns, panics            prometheus.Counter
	answered, late, reset, rejected, refused, tooLarge, other prometheus.Counter
	goaways                                                   *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "ratelimitd_grpc_" + name, Help: help})
	}
	calls := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "ratelimitd_grpc_calls_total",
		Help: "Calls by what became of them: answered by the service, late (the deadline had passed), reset by the client before that, rejected as no proper call, refused for their number, other (another method).",
	}, []string{"outcome"})
	m := &metrics{
		accepted:     counter("connections_total", "Connections accepted."),
		closed:       counter("connections_closed_total", "Connections closed."),
		cutOff:       counter("connections_cut_off_total", "Connections closed because the client was silent, slow to read, or kept a connection too long."),
		refusedConns: counter("connections_refused_total", "Connections closed because as many as may be were open: the one that had been silent for the longest since it was opened, or else the new one."),
		panics:       counter("panics_total", "Panics caught while handling calls."),
		tooLarge:     counter("too_large_messages_total", "Requests whose message was too large to be kept."),
		answered:     calls.WithLabelValues("answered"),
		late:         calls.WithLabelValues("late"),
		reset:        calls.WithLabelValues("reset"),
		rejected:     calls.WithLabelValues("rejected"),
		refused:      calls.WithLabelValues("refused"),
		other:        calls.WithLabelValues("other"),
		goaways: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ratelimitd_grpc_goaways_total",
			Help: "GOAWAY sent, by HTTP/2 error code; NO_ERROR is for connections that were old, or when the server stopped.",
		}, []string{"code"}),
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.accepted, m.closed, m.cutOff, m.refusedConns, m.panics, m.tooLarge, calls, m.goaways} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register the metrics of the transport: %w", err)
		}
	}
	return m, nil
}

func (m *metrics) goaway(code http2.ErrCode) { m.goaways.WithLabelValues(code.String()).Inc() }
