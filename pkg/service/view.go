package service

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
	"github.com/ratelimitd/ratelimitd/pkg/descriptors"
)

// view is a limit as it is asked of the store and shown to clients, written
// once per set of rules. It is immutable.
type view struct {
	limit    *descriptors.Limit
	ask      algorithm.Ask // without what differs from request to request
	current  []byte        // current_limit of a status, in wire form
	name     string        // of the policy, a quoted string of structured fields
	policy   string        // value of RateLimit-Policy
	requests string        // per unit, decimal
	allows   string        // "60 requests per minute"
	series   *series

	// window is that whose end is told, whatever is in use; 0: what is told
	// depends on the decision.
	window time.Duration
}

func newView(l *descriptors.Limit, counting algorithm.Counting, s *series) view {
	name := quote(policyName(l))
	requests := strconv.FormatInt(l.Limit.Requests, 10)
	v := view{
		limit: l,
		ask: algorithm.Ask{
			Limit: l.Limit, Shadow: l.Shadow, Quota: l.Quota, Counting: counting, OnStoreError: l.OnStoreError, Priority: l.Priority,
		},
		current:  appendCurrent(nil, l),
		name:     name,
		policy:   name + ";q=" + requests,
		requests: requests,
		allows:   requests + " requests per " + period(l),
		series:   s,
	}
	if w := l.Limit.Window; w%time.Second == 0 && w > 0 {
		v.policy += ";w=" + strconv.FormatInt(int64(w/time.Second), 10)
	}
	return v
}

// policyName is what clients know a limit by: its own name, otherwise the keys
// of its rule, with the window where the rule has several limits. Values are
// left out, since they may be nobody's business.
func policyName(l *descriptors.Limit) string {
	switch {
	case l.Name != "":
		return l.Name
	case l.Rule == nil || len(l.Rule.Path) == 0:
		return "override"
	}
	var b strings.Builder
	for i, entry := range l.Rule.Path {
		if i > 0 {
			b.WriteByte('/')
		}
		b.WriteString(entry.Key)
	}
	if len(l.Rule.Limits) > 1 {
		fmt.Fprintf(&b, "/%v", shortDuration(l.Limit.Window))
	}
	return b.String()
}

// period names the time in which a limit's requests are allowed.
func period(l *descriptors.Limit) string {
	if l.Unit == 0 {
		return shortDuration(l.Limit.Window)
	}
	unit := strings.ToLower(rlsv3.RateLimitResponse_RateLimit_Unit(l.Unit).String())
	if l.Multiplier > 1 {
		return strconv.FormatUint(uint64(l.Multiplier), 10) + " " + unit + "s"
	}
	return unit
}

// shortDuration writes 1h for 1h0m0s.
func shortDuration(d time.Duration) string {
	s := d.String()
	if d%time.Minute == 0 {
		s = strings.TrimSuffix(s, "0s")
	}
	if d%time.Hour == 0 {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
