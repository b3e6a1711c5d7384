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
func newTransport(s *settings.Settings, rateLimit *service.Service, other http.Handler, inline bool, log *slog.Logger, registry prometheus.Registerer) (*transport.Server, error) {
	grace := s.GRPCConnectionAgeGrace
	if grace == 0 { // for ever
		grace = math.MaxInt64
	}
	return transport.New(transport.Options{
		Method:          rlsv3.RateLimitService_ShouldRateLimit_FullMethodName,
		Handler:         &answerer{service: rateLimit},
		Other:           other,
		Mark:            mark,
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

// strict is the mark of calls from programs, see [service.StrictCaller].
const strict = 1

func mark(header func(name string) string) uint32 {
	if service.StrictCaller(header) {
		return strict
	}
	return 0
}

// answerer has the service answer the calls of a connection.
type answerer struct {
	service *service.Service
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
	for _, c := range calls {
		exchanges = append(exchanges, service.Exchange{
			Request: c.Message, TooLarge: c.TooLarge, Strict: c.Mark == strict,
			Arrived: c.Arrived, Deadline: c.Deadline, Gone: c.Gone, Reply: c.Reply,
		})
	}
	a.service.Answer(ctx, exchanges)
	for i, c := range calls {
		c.Reply = exchanges[i].Reply
		if err := exchanges[i].Err; err != nil {
			c.Code, c.Status = uint32(err.Code()), err.Error()
		}
	}
	clear(exchanges)
	if cap(exchanges) <= maxPooled {
		*batch = exchanges
		a.batches.Put(batch)
	}
}
