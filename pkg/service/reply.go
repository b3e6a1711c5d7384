package service

import (
	"context"
	"math"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
	"github.com/ratelimitd/ratelimitd/pkg/descriptors"
)

// The fields of a RateLimitResponse and of what is in it, as far as they are
// used.
const (
	overallCode     = 1 // enum
	statuses        = 2 // repeated DescriptorStatus
	headersToAdd    = 3 // repeated HeaderValue
	rawBody         = 5 // bytes
	dynamicMetadata = 6 // Struct

	statusCode       = 1 // enum
	statusLimit      = 2 // RateLimit
	statusRemaining  = 3 // uint32
	statusUntilReset = 4 // Duration

	limitRequests   = 1 // uint32
	limitUnit       = 2 // enum
	limitName       = 3 // string
	limitMultiplier = 4 // UInt32Value

	headerKey, headerValue = 1, 2 // strings

	durationSeconds = 1 // int64
	wrapperValue    = 1 // uint32
)

// reply sets Reply or Err of the i-th exchange of the batch.
func (s *Service) reply(ctx context.Context, b *batch, i int, e *Exchange) result {
	r := &b.requests[i]
	v := s.judge(b, r)
	switch {
	case r.err != nil:
		e.Err = r.err
	case v.failed:
		e.Err = storeFailed(ctx, e.Deadline, v.failure)
	case r.bare != 0:
		v.over = r.bare == rlsv3.RateLimitResponse_OVER_LIMIT && !s.options.Shadow
		e.Reply = appendBare(e.Reply, v.code(), r.bare, r.descriptors.last-r.descriptors.first)
	default:
		e.Reply = s.appendReply(e.Reply, b, r, &v)
	}
	if e.Account != nil {
		b.account(e.Account, r, v.over, e.Err)
	}
	switch {
	case e.Err != nil:
		s.metrics.errors[e.Err.Kind].Inc()
		if m := s.options.Meter; m != nil {
			m.Failed(e.Err.wantsStore())
		}
		return failed
	case v.over:
		return refused
	}
	return passed
}

// judge applies the rules of the overall code, and what the options make of it.
func (s *Service) judge(b *batch, r *request) verdict {
	v := judge(b.asks[r.asks.first:r.asks.last], b.decisions[r.asks.first:r.asks.last])
	v.over = v.over && (!s.options.Quota || !b.hasFree(r))
	if v.over && s.options.Shadow {
		v.over = false
		if m := s.options.Meter; m != nil {
			m.Shadowed()
		}
	}
	return v
}

// hasFree reports whether a descriptor of the request has no limit.
func (b *batch) hasFree(r *request) bool {
	for i := r.descriptors.first; i < r.descriptors.last; i++ {
		d := &b.descriptors[i]
		if d.asks.first == d.asks.last && (b.rules[i] == nil || !b.rules[i].Unlimited) {
			return true
		}
	}
	return false
}

// speaker returns the ask that the headers speak of, -1 for none.
func (s *Service) speaker(b *batch, r *request, v *verdict) int {
	if s.options.Headers.Last {
		return b.last(r)
	}
	if v.speaker < 0 {
		return -1
	}
	return r.asks.first + v.speaker
}

// last returns the ask that is shown of the last descriptor that denies, a quota
// aside, or else of the first with the least remaining.
func (b *batch) last(r *request) int {
	best, least := -1, uint32(0)
	for i := r.descriptors.first; i < r.descriptors.last; i++ {
		shown := b.shown(b.descriptors[i].asks)
		if shown < 0 {
			continue
		}
		s := b.status(i)
		denies := s.code == rlsv3.RateLimitResponse_OVER_LIMIT && !b.asks[shown].Quota
		if best < 0 || denies || s.remaining < least {
			best, least = shown, s.remaining
		}
	}
	return best
}

// appendReply appends the reply to a request with a verdict.
func (s *Service) appendReply(reply []byte, b *batch, r *request, v *verdict) []byte {
	reply = appendInt(reply, overallCode, uint64(v.code()))
	for i := r.descriptors.first; i < r.descriptors.last; i++ {
		reply = appendStatus(reply, b.status(i))
	}
	if speaker := s.speaker(b, r, v); speaker >= 0 {
		reply = s.options.Headers.append(reply, b.views[speaker], &b.decisions[speaker], v.over)
		if v.over && s.options.Body {
			reply = appendHeader(reply, "Content-Type", problemMediaType)
			field, mark := begin(reply, rawBody)
			reply = end(appendProblem(field, b.views[speaker], &b.decisions[speaker]), mark)
		}
	}
	if s.options.Headers.Degraded {
		reply = b.appendDegraded(reply, r)
	}
	if s.options.Headers.Delay && !v.over {
		reply = b.appendDelay(reply, r)
	}
	if s.options.Metadata {
		told := v
		if s.options.Terse {
			told = nil
		}
		reply = b.appendMetadata(reply, r, told)
	}
	return reply
}

// appendBare appends the reply to a request that no rule can concern: the
// overall code, and n statuses with one code.
func appendBare(reply []byte, overall, code rlsv3.RateLimitResponse_Code, n int) []byte {
	reply = appendInt(reply, overallCode, uint64(overall))
	for range n {
		reply = appendStatus(reply, descriptorStatus{code: code})
	}
	return reply
}

// descriptorStatus is what a reply says of one descriptor.
type descriptorStatus struct {
	code      rlsv3.RateLimitResponse_Code
	limit     *view // nil: it has none, and then no reset
	remaining uint32
	reset     int64 // seconds
}

// status returns the status of the i-th descriptor.
//
// What remains is 0 wherever hits were denied, even if a smaller cost would
// still fit, and never more than 2^32-1.
func (b *batch) status(i int) descriptorStatus {
	if rule := b.rules[i]; rule != nil && rule.Unlimited {
		return descriptorStatus{code: rlsv3.RateLimitResponse_OK, remaining: math.MaxUint32}
	}
	shown := b.shown(b.descriptors[i].asks)
	if shown < 0 {
		return descriptorStatus{code: rlsv3.RateLimitResponse_OK}
	}
	d := &b.decisions[shown]
	s := descriptorStatus{code: rlsv3.RateLimitResponse_OK, limit: b.views[shown], reset: b.views[shown].wait(d)}
	switch {
	case d.Outcome == algorithm.Denied && b.asks[shown].Shadow && b.views[shown].window == 0:
		s.reset = seconds(d.Reset)
	case d.Outcome == algorithm.Denied && b.asks[shown].Shadow:
	case d.Outcome == algorithm.Denied:
		s.code = rlsv3.RateLimitResponse_OVER_LIMIT
	default:
		s.remaining = uint32(min(max(d.Remaining, 0), math.MaxUint32))
	}
	return s
}

// shown returns the ask that the status of a descriptor tells of, -1 if none
// was decided: the one that denies longest, otherwise the one with the least
// remaining. A shadow limit is shown only where there is no other.
func (b *batch) shown(asks span) int {
	best := -1
	for i := asks.first; i < asks.last; i++ {
		switch {
		case !known(&b.decisions[i]):
		case best < 0, b.asks[best].Shadow && !b.asks[i].Shadow:
			best = i
		case b.asks[best].Shadow == b.asks[i].Shadow && tighter(b.asks, b.decisions, i, best):
			best = i
		}
	}
	return best
}

// appendStatus appends a status.
func appendStatus(reply []byte, s descriptorStatus) []byte {
	reply, mark := begin(reply, statuses)
	reply = appendInt(reply, statusCode, uint64(s.code))
	if s.limit != nil {
		reply = append(reply, s.limit.current...)
	}
	reply = appendInt(reply, statusRemaining, uint64(s.remaining))
	if s.limit != nil {
		field, mark := begin(reply, statusUntilReset)
		reply = end(appendInt(field, durationSeconds, uint64(s.reset)), mark)
	}
	return end(reply, mark)
}

// appendCurrent appends the current_limit of a status.
func appendCurrent(b []byte, l *descriptors.Limit) []byte {
	b, mark := begin(b, statusLimit)
	b = appendInt(b, limitRequests, uint64(l.Limit.Requests))
	b = appendInt(b, limitUnit, uint64(l.Unit))
	if l.Name != "" {
		b = appendText(b, limitName, wireName(l.Name))
	}
	if l.Multiplier > 1 {
		field, mark := begin(b, limitMultiplier)
		b = end(appendInt(field, wrapperValue, uint64(l.Multiplier)), mark)
	}
	return end(b, mark)
}
