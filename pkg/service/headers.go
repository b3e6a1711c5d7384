package service

import (
	"strconv"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// Headers says which headers a client gets. All of a reply speak of one limit:
// the one that denies longest, otherwise the tightest. Shadow limits are never
// shown. All times are seconds from now, rounded up.
type Headers struct {
	// RateLimit and RateLimitPolicy are the structured fields of
	// draft-ietf-httpapi-ratelimit-headers-11: what is left, and the limit.
	RateLimit, RateLimitPolicy bool

	// RetryAfter tells, on a denial only, when the same request would pass.
	RetryAfter bool

	// Triple stands for RateLimit-Limit, RateLimit-Remaining and
	// RateLimit-Reset, XTriple for the same with X- in front. Envoy can add
	// X- headers of its own to these.
	Triple, XTriple bool

	// Delay is X-RateLimit-Delay-Ms: after how long a leaky bucket's queue
	// would release the request.
	Delay bool
}

// headers returns the headers of a reply that tells of the given ask. over is
// set if the reply denies.
func (h *Headers) headers(v *view, d *algorithm.Decision, over bool) []*corev3.HeaderValue {
	n := h.count(over)
	if n == 0 {
		return nil
	}
	made, list := make([]corev3.HeaderValue, n), make([]*corev3.HeaderValue, 0, n+1)
	add := func(key, value string) {
		header := &made[len(list)]
		header.Key, header.Value = key, value
		list = append(list, header)
	}
	remaining, reset := int64(0), strconv.FormatInt(wait(d), 10)
	if d.Outcome == algorithm.Allowed {
		remaining = max(d.Remaining, 0)
	}
	left := strconv.FormatInt(remaining, 10)
	if h.RateLimitPolicy {
		add("RateLimit-Policy", v.policy)
	}
	if h.RateLimit {
		add("RateLimit", v.name+";r="+left+";t="+reset)
	}
	if h.RetryAfter && over {
		add("Retry-After", reset)
	}
	if h.Triple {
		add("RateLimit-Limit", v.limit)
		add("RateLimit-Remaining", left)
		add("RateLimit-Reset", reset)
	}
	if h.XTriple {
		add("X-RateLimit-Limit", v.limit)
		add("X-RateLimit-Remaining", left)
		add("X-RateLimit-Reset", reset)
	}
	return list
}

// count returns how many headers a reply has, without that of the delay.
func (h *Headers) count(over bool) int {
	n := 0
	for _, part := range [...]struct {
		on     bool
		number int
	}{{h.RateLimit, 1}, {h.RateLimitPolicy, 1}, {h.RetryAfter && over, 1}, {h.Triple, 3}, {h.XTriple, 3}} {
		if part.on {
			n += part.number
		}
	}
	return n
}

// delay returns how long the queues of the request's leaky buckets hold it,
// and whether it has any.
func (c *call) delay() (time.Duration, bool) {
	longest, found := time.Duration(0), false
	for i := range c.asks {
		a, d := &c.asks[i], &c.decisions[i]
		if a.Limit.Algorithm == algorithm.LeakyBucket && !a.Shadow && a.Mode == algorithm.Charge && d.Outcome == algorithm.Allowed {
			longest, found = max(longest, d.Delay), true
		}
	}
	return longest, found
}

// milliseconds rounds up.
func milliseconds(d time.Duration) int64 {
	return int64((max(d, 0) + time.Millisecond - 1) / time.Millisecond)
}

// addDelay adds the header of the delay to a reply's headers.
func (c *call) addDelay(headers []*corev3.HeaderValue) []*corev3.HeaderValue {
	delay, ok := c.delay()
	if !ok {
		return headers
	}
	return append(headers, &corev3.HeaderValue{Key: "X-RateLimit-Delay-Ms", Value: strconv.FormatInt(milliseconds(delay), 10)})
}
