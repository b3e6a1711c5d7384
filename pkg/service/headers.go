package service

import (
	"strconv"
	"time"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// Headers says which headers a client gets. All of a reply speak of one limit:
// the one that denies longest, otherwise the tightest. Shadow limits are not
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

	// Named, if not nil, are the names of three headers like those of Triple.
	Named *[3]string

	// Last has the headers speak of the last descriptor that denies, or else of
	// the first with the least remaining, shadow limits among them.
	Last bool

	// Delay is X-RateLimit-Delay-Ms: after how long a leaky bucket's queue
	// would release the request.
	Delay bool

	// Degraded is X-RateLimit-Degraded: deny, local or allow, where that failure
	// policy answered in place of the store.
	Degraded bool
}

// append appends the headers of a reply that tells of a decision on the limit.
// over is set if the reply denies.
func (h *Headers) append(reply []byte, v *view, d *algorithm.Decision, over bool) []byte {
	remaining := int64(0)
	if d.Outcome == algorithm.Allowed {
		remaining = max(d.Remaining, 0)
	}
	var room [2][20]byte
	left := strconv.AppendInt(room[0][:0], remaining, 10)
	reset := strconv.AppendInt(room[1][:0], v.wait(d), 10)
	if h.RateLimitPolicy {
		reply = appendHeader(reply, "RateLimit-Policy", v.policy)
	}
	if h.RateLimit {
		field, header, value := beginHeader(reply, "RateLimit")
		field = append(append(field, v.name...), ";r="...)
		field = append(append(field, left...), ";t="...)
		reply = endHeader(append(field, reset...), header, value)
	}
	if h.RetryAfter && over {
		reply = appendHeader(reply, "Retry-After", reset)
	}
	if h.Triple {
		reply = appendHeader(reply, "RateLimit-Limit", v.requests)
		reply = appendHeader(reply, "RateLimit-Remaining", left)
		reply = appendHeader(reply, "RateLimit-Reset", reset)
	}
	if h.Named != nil {
		reply = appendHeader(reply, h.Named[0], v.requests)
		reply = appendHeader(reply, h.Named[1], left)
		reply = appendHeader(reply, h.Named[2], reset)
	}
	if h.XTriple {
		reply = appendHeader(reply, "X-RateLimit-Limit", v.requests)
		reply = appendHeader(reply, "X-RateLimit-Remaining", left)
		reply = appendHeader(reply, "X-RateLimit-Reset", reset)
	}
	return reply
}

// appendHeader appends a header.
func appendHeader[T string | []byte](reply []byte, key string, value T) []byte {
	reply, header, content := beginHeader(reply, key)
	return endHeader(append(reply, value...), header, content)
}

// beginHeader begins a header whose value is then appended, until [endHeader],
// which takes the marks.
func beginHeader(reply []byte, key string) (_ []byte, header, value int) {
	reply, header = begin(reply, headersToAdd)
	reply, value = begin(appendText(reply, headerKey, key), headerValue)
	return reply, header, value
}

func endHeader(reply []byte, header, value int) []byte {
	return end(end(reply, value), header)
}

// delay returns how long the queues of a request's leaky buckets hold it, and
// whether it has any.
func (b *batch) delay(r *request) (time.Duration, bool) {
	longest, found := time.Duration(0), false
	for i := r.asks.first; i < r.asks.last; i++ {
		a, d := &b.asks[i], &b.decisions[i]
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

// appendDelay appends the header of the delay.
func (b *batch) appendDelay(reply []byte, r *request) []byte {
	delay, ok := b.delay(r)
	if !ok {
		return reply
	}
	reply, header, value := beginHeader(reply, "X-RateLimit-Delay-Ms")
	return endHeader(strconv.AppendInt(reply, milliseconds(delay), 10), header, value)
}
