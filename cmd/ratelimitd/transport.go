package main

import (
	"context"
	"log/slog"
	"math"
	"net/http"
	"sync"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ratelimitd/ratelimitd/pkg/service"
	"github.com/ratelimitd/ratelimitd/pkg/settings"
	"github.com/ratelimitd/ratelimitd/pkg/transport"
)

// newTransport returns the server of the gRPC port. inline says that the store
// never waits for anything.
func newTransport(s *settings.Settings, rateLimit *service.Service, spans *spans, other http.Handler, inline bool, log *slog.Logger, registry prometheus.Registerer) (*transport.Server, error) {
	grace := s.GRPCConnectionAgeGrace
	if grace == 0 { // for ever
		grace = math.MaxInt64
	}
	return transport.New(transport.Options{
		Method:          rlsv3.RateLimitService_ShouldRateLimit_FullMethodName,
		Handler:         &answerer{service: rateLimit, spans: spans},
		Other:           other,
		Mark:            spans.mark,
		Inline:          inline,
		MaxMessage:      int(s.GRPCMaxMessage),
		MaxConnections:  s.GRPCMaxConnections,
		MaxStreams:      s.GRPCMaxStreams,
		MaxHeaderList:   int(s.GRPCMaxHeaderList),
		ConnectionAge:   s.GRPCConnectionAge,
		ConnectionGrace: grace,
		Logger:          log,
		Registerer:      registry,
	})
}

// answerer has the service answer the calls of a connection.
type answerer struct {
	service *service.Service
	spans   *spans
	batches sync.Pool // of *[]service.Exchange
}

// maxPooled is the size of the largest batch that is kept for another one.
const maxPooled = 1024

// Handle implements [transport.Handler].
func (a *answerer) Handle(ctx context.Context, calls []*transport.Call) {
	batch, ok := a.batches.Get().(*[]service.Exchange)
	if !ok {
		batch = new([]service.Exchange)
	}
	exchanges := (*batch)[:0]
	var traced []*span
	for i, c := range calls {
		from := c.Mark.(*caller)
		exchanges = append(exchanges, service.Exchange{
			Request: c.Message, TooLarge: c.TooLarge, Strict: from.strict,
			Arrived: c.Arrived, Deadline: c.Deadline, Gone: c.Gone, Reply: c.Reply,
		})
		if span := a.spans.begin(a.spans.tracer.Begin(&from.parent, c.Arrived)); span != nil {
			span.index = i
			exchanges[i].Account = &span.Account
			traced = append(traced, span)
		}
	}
	a.service.Answer(ctx, exchanges)
	for i, c := range calls {
		c.Reply = exchanges[i].Reply
		if err := exchanges[i].Err; err != nil {
			c.Code, c.Status = uint32(err.Code()), err.Error()
		}
	}
	for _, span := range traced {
		span.err = exchanges[span.index].Err
		calls[span.index].Sent = span.end
	}
	clear(exchanges)
	if cap(exchanges) <= maxPooled {
		*batch = exchanges
		a.batches.Put(batch)
	}
}
