package statsd

import (
	"sync/atomic"
	"time"
)

// shouldRateLimit is the method of all requests.
const shouldRateLimit = "ShouldRateLimit"

// calls are those of one gRPC method.
type calls struct {
	requestsName, timesName string

	requests atomic.Uint64
	sent     uint64 // belongs to the sink
	times    times
}

func newCalls(method string) *calls {
	prefix := "ratelimit_server." + method
	return &calls{requestsName: prefix + ".total_requests", timesName: prefix + ".response_time"}
}

func (c *calls) add(took time.Duration, requests int) {
	c.requests.Add(uint64(requests))
	c.times.add(took, requests)
}

// Answered counts requests that were answered together, and the time it took.
func (t *Tally) Answered(took time.Duration, requests int) { t.calls[0].add(took, requests) }

// Called counts a call of one of the methods of [Options]. Those of another
// method are not counted.
func (t *Tally) Called(method string, took time.Duration) {
	for i, name := range t.options.Methods {
		if name == method {
			t.calls[i+1].add(took, 1)
		}
	}
}
