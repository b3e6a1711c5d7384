package service

import (
	"math"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// statuses returns one status for each descriptor, in order.
func (c *call) statuses() []*rlsv3.RateLimitResponse_DescriptorStatus {
	made := make([]rlsv3.RateLimitResponse_DescriptorStatus, len(c.spans))
	resets := make([]durationpb.Duration, len(c.spans))
	list := make([]*rlsv3.RateLimitResponse_DescriptorStatus, len(c.spans))
	for i := range c.spans {
		c.status(i, &made[i], &resets[i])
		list[i] = &made[i]
	}
	return list
}

// status fills in the status of the i-th descriptor. A descriptor without a
// limit has neither current_limit nor duration_until_reset; one with a limit
// has both.
//
// limit_remaining is 0 wherever hits were denied, even if a smaller cost would
// still fit, and never more than 2^32-1.
func (c *call) status(i int, s *rlsv3.RateLimitResponse_DescriptorStatus, reset *durationpb.Duration) {
	s.Code = rlsv3.RateLimitResponse_OK
	if rule := c.rules[i]; rule != nil && rule.Unlimited {
		s.LimitRemaining = math.MaxUint32
		return
	}
	shown := c.shown(c.spans[i])
	if shown < 0 {
		return
	}
	d := &c.decisions[shown]
	s.CurrentLimit = c.views[shown].message
	s.DurationUntilReset = reset
	switch {
	case d.Outcome == algorithm.Denied && c.asks[shown].Shadow:
		reset.Seconds = seconds(d.Reset)
	case d.Outcome == algorithm.Denied:
		s.Code = rlsv3.RateLimitResponse_OVER_LIMIT
		reset.Seconds = wait(d)
	default:
		s.LimitRemaining = uint32(min(max(d.Remaining, 0), math.MaxUint32))
		reset.Seconds = wait(d)
	}
}

// shown returns the ask that the status of a descriptor tells of, -1 if none
// was decided: the one that denies longest, otherwise the one with the least
// remaining. A shadow limit is shown only where there is no other.
func (c *call) shown(s span) int {
	best := -1
	for i := s.first; i < s.last; i++ {
		switch {
		case !known(&c.decisions[i]):
		case best < 0, c.asks[best].Shadow && !c.asks[i].Shadow:
			best = i
		case c.asks[best].Shadow == c.asks[i].Shadow && tighter(c.asks, c.decisions, i, best):
			best = i
		}
	}
	return best
}

// bare returns the reply to a request that no rule can concern: n statuses
// with one code. They are one message, which nobody changes.
func bare(n int, code rlsv3.RateLimitResponse_Code) *rlsv3.RateLimitResponse {
	status := &rlsv3.RateLimitResponse_DescriptorStatus{Code: code}
	list := make([]*rlsv3.RateLimitResponse_DescriptorStatus, n)
	for i := range list {
		list[i] = status
	}
	return &rlsv3.RateLimitResponse{OverallCode: code, Statuses: list}
}
