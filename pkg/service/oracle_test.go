package service

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
	"github.com/ratelimitd/ratelimitd/pkg/descriptors"
)

// recorder is a store that remembers what it was last asked and what it said.
type recorder struct {
	next      Decider
	asks      []algorithm.Ask
	decisions []algorithm.Decision
	calls     int
}

func (r *recorder) Decide(ctx context.Context, asks []algorithm.Ask, out []algorithm.Decision) {
	r.next.Decide(ctx, asks, out)
	r.calls++
	r.asks, r.decisions = slices.Clone(asks), slices.Clone(out)
	for i := range r.asks {
		r.asks[i].Key = slices.Clone(asks[i].Key)
	}
}

// group returns the asks of the i-th request, and the decisions.
func (r *recorder) group(i int) (asks []algorithm.Ask, decisions []algorithm.Decision) {
	for j := range r.asks {
		if r.asks[j].Group == int32(i) {
			asks, decisions = append(asks, r.asks[j]), append(decisions, r.decisions[j])
		}
	}
	return asks, decisions
}

// oracle says what a request must be answered, slowly, in generated messages,
// and without a look at anything that was worked out beforehand.
type oracle struct {
	options Options
	rules   *descriptors.Rules
}

// asked is what one limit of a descriptor was asked and said.
type asked struct {
	limit    *descriptors.Limit
	ask      *algorithm.Ask
	decision *algorithm.Decision
}

// reply returns the reply without dynamic metadata, or the text of the error.
func (o *oracle) reply(t testing.TB, m *anyRequest, e *Exchange, asks []algorithm.Ask, decisions []algorithm.Decision) (*rlsv3.RateLimitResponse, string) {
	t.Helper()
	domain := o.rules.Domain(m.Domain)
	switch fault := fault(m, e.Strict); {
	case e.TooLarge:
		return o.same(rlsv3.RateLimitResponse_OVER_LIMIT, 0), ""
	case fault != "":
		return nil, fault
	case domain == nil:
		return o.same(rlsv3.RateLimitResponse_OK, len(m.Descriptors)), ""
	case len(m.Descriptors) > o.options.MaxDescriptors, o.met(domain, m) > o.options.MaxDescriptors:
		return o.same(rlsv3.RateLimitResponse_OVER_LIMIT, len(m.Descriptors)), ""
	}
	rules, of := o.match(t, domain, m, e, asks, decisions)
	v := judge(asks, decisions)
	if v.failed {
		return nil, "the store did not decide: " + v.failure.Error()
	}
	response := &rlsv3.RateLimitResponse{OverallCode: rlsv3.RateLimitResponse_OK}
	if v.over {
		response.OverallCode = rlsv3.RateLimitResponse_OVER_LIMIT
	}
	var all []asked
	for i := range of {
		response.Statuses = append(response.Statuses, statusOf(rules[i], of[i]))
		all = append(all, of[i]...)
	}
	if v.speaker >= 0 {
		o.speak(response, all[v.speaker], v.over)
	}
	if delay, ok := delayOf(all); ok && o.options.Headers.Delay && !v.over {
		addHeader(response, "X-RateLimit-Delay-Ms", delay)
	}
	return response, ""
}

func fault(m *anyRequest, strict bool) string {
	switch {
	case len(m.Domain) == 0:
		return "rate limit domain must not be empty"
	case len(m.Descriptors) == 0:
		return "rate limit descriptor list must not be empty"
	}
	for i, d := range m.Descriptors {
		if len(d.Entries) == 0 && strict {
			return fmt.Sprintf("descriptors[%d] has no entries", i)
		}
		for j, e := range d.Entries {
			if len(e.Key) == 0 {
				return fmt.Sprintf("descriptors[%d].entries[%d] has an empty key", i, j)
			}
		}
	}
	return ""
}

func (o *oracle) same(code rlsv3.RateLimitResponse_Code, n int) *rlsv3.RateLimitResponse {
	r := &rlsv3.RateLimitResponse{OverallCode: code}
	for range n {
		r.Statuses = append(r.Statuses, &rlsv3.RateLimitResponse_DescriptorStatus{Code: code})
	}
	return r
}

// met is how many limits the descriptors meet.
func (o *oracle) met(domain *descriptors.Domain, m *anyRequest) int {
	rules, brought := o.rulesOf(domain, m)
	n := 0
	for i := range rules {
		switch {
		case brought[i] != nil:
			n++
		case rules[i] != nil && !rules[i].Unlimited:
			n += len(rules[i].Limits)
		}
	}
	return n
}

// rulesOf finds the rule of each descriptor, or the limit that it brings.
func (o *oracle) rulesOf(domain *descriptors.Domain, m *anyRequest) ([]*descriptors.Rule, []*descriptors.Limit) {
	rules := make([]*descriptors.Rule, len(m.Descriptors))
	brought := make([]*descriptors.Limit, len(m.Descriptors))
	for i, d := range m.Descriptors {
		if d.HasOverride && len(d.Entries) > 0 {
			brought[i], _ = domain.Override(d.Override)
		}
		if brought[i] == nil {
			rules[i] = domain.Match(d.Entries)
		}
	}
	descriptors.Replaced(rules)
	return rules, brought
}

// match finds the limits of each descriptor, and sees to it that they, with
// their keys, are what the store was asked.
func (o *oracle) match(t testing.TB, domain *descriptors.Domain, m *anyRequest, e *Exchange, asks []algorithm.Ask, decisions []algorithm.Decision) ([]*descriptors.Rule, [][]asked) {
	t.Helper()
	rules, brought := o.rulesOf(domain, m)
	of := make([][]asked, len(m.Descriptors))
	next := 0
	for i, d := range m.Descriptors {
		var limits []*descriptors.Limit
		if brought[i] != nil {
			limits = []*descriptors.Limit{brought[i]}
		} else if rules[i] != nil && !rules[i].Unlimited {
			limits = rules[i].Limits
		}
		counted := slices.Clone(d.Entries)
		o.rules.Hide(nil, rules[i], counted)
		for _, l := range limits {
			want := algorithm.Ask{
				Key: l.AppendKey(nil, counted), Limit: l.Limit, Hits: int64(max(m.HitsAddend, 1)), Shadow: l.Shadow, Quota: l.Quota,
				Counting: domain.Counting, Deadline: e.Deadline, OnStoreError: l.OnStoreError, Priority: l.Priority,
			}
			if d.HasHits {
				want.Hits = int64(min(d.Hits, 1<<53))
			}
			if d.IsNegative {
				want.Mode = algorithm.GiveBack
			}
			if next == len(asks) {
				t.Fatalf("descriptor %d: the store was not asked", i)
			}
			want.Group = asks[next].Group
			if brought[i] != nil { // made anew for each request
				want.Limit = asks[next].Limit
				if got := want.Limit; got.Requests != l.Limit.Requests || got.Window != l.Limit.Window || got.Algorithm != l.Limit.Algorithm {
					t.Fatalf("descriptor %d: asked for %+v, want %+v", i, got, l.Limit)
				}
			}
			if got, want := fmt.Sprintf("%+v", asks[next]), fmt.Sprintf("%+v", want); got != want {
				t.Fatalf("descriptor %d: asked\n%s, want\n%s", i, got, want)
			}
			of[i] = append(of[i], asked{l, &asks[next], &decisions[next]})
			next++
		}
	}
	if next != len(asks) {
		t.Fatalf("the store was asked %d times, want %d", len(asks), next)
	}
	return rules, of
}

func statusOf(rule *descriptors.Rule, of []asked) *rlsv3.RateLimitResponse_DescriptorStatus {
	s := &rlsv3.RateLimitResponse_DescriptorStatus{Code: rlsv3.RateLimitResponse_OK}
	if rule != nil && rule.Unlimited {
		s.LimitRemaining = math.MaxUint32
		return s
	}
	of = slices.DeleteFunc(slices.Clone(of), func(a asked) bool {
		return a.decision.Outcome == algorithm.Undecided || a.decision.Outcome == algorithm.Allowed && a.decision.Degraded && a.decision.Err != nil
	})
	if slices.ContainsFunc(of, func(a asked) bool { return !a.ask.Shadow }) {
		of = slices.DeleteFunc(of, func(a asked) bool { return a.ask.Shadow })
	}
	if len(of) == 0 {
		return s
	}
	shown := of[0]
	for _, a := range of[1:] {
		if tighter([]algorithm.Ask{*a.ask, *shown.ask}, []algorithm.Decision{*a.decision, *shown.decision}, 0, 1) {
			shown = a
		}
	}
	s.CurrentLimit = &rlsv3.RateLimitResponse_RateLimit{
		Name: wireName(shown.limit.Name), RequestsPerUnit: uint32(shown.limit.Limit.Requests), Unit: rlsv3.RateLimitResponse_RateLimit_Unit(shown.limit.Unit),
	}
	if shown.limit.Multiplier > 1 {
		s.CurrentLimit.UnitMultiplier = wrapperspb.UInt32(shown.limit.Multiplier)
	}
	d := shown.decision
	reset := d.Reset
	if d.Outcome == algorithm.Denied && !shown.ask.Shadow {
		s.Code = rlsv3.RateLimitResponse_OVER_LIMIT
		reset = max(d.RetryAfter, 1)
	}
	if d.Outcome == algorithm.Allowed {
		s.LimitRemaining = uint32(min(max(d.Remaining, 0), math.MaxUint32))
	}
	s.DurationUntilReset = &durationpb.Duration{Seconds: ceil(reset)}
	return s
}

// ceil returns whole seconds.
func ceil(d time.Duration) int64 {
	whole := int64(max(d, 0) / time.Second)
	if time.Duration(whole)*time.Second < d {
		whole++
	}
	return whole
}

// speak adds headers and body of the limit that clients hear of.
func (o *oracle) speak(r *rlsv3.RateLimitResponse, a asked, over bool) {
	remaining, reset := int64(0), a.decision.Reset
	if a.decision.Outcome == algorithm.Denied {
		reset = max(a.decision.RetryAfter, 1)
	} else {
		remaining = max(0, a.decision.Remaining)
	}
	seconds, name, requests := ceil(reset), quote(policyName(a.limit)), a.limit.Limit.Requests
	policy := fmt.Sprintf("%s;q=%d", name, requests)
	if w := a.limit.Limit.Window; w%time.Second == 0 {
		policy += fmt.Sprintf(";w=%d", w/time.Second)
	}
	h := &o.options.Headers
	if h.RateLimitPolicy {
		addHeader(r, "RateLimit-Policy", policy)
	}
	if h.RateLimit {
		addHeader(r, "RateLimit", fmt.Sprintf("%s;r=%d;t=%d", name, remaining, seconds))
	}
	if h.RetryAfter && over {
		addHeader(r, "Retry-After", strconv.FormatInt(seconds, 10))
	}
	for prefix, on := range map[string]bool{"": h.Triple, "X-": h.XTriple} {
		if on {
			addHeader(r, prefix+"RateLimit-Limit", strconv.FormatInt(requests, 10))
			addHeader(r, prefix+"RateLimit-Remaining", strconv.FormatInt(remaining, 10))
			addHeader(r, prefix+"RateLimit-Reset", strconv.FormatInt(seconds, 10))
		}
	}
	slices.SortStableFunc(r.ResponseHeadersToAdd, func(a, b *corev3.HeaderValue) int { // X- last, whatever the map's order
		return map[bool]int{true: 1}[a.Key[0] == 'X'] - map[bool]int{true: 1}[b.Key[0] == 'X']
	})
	if over && o.options.Body {
		v := newView(a.limit, algorithm.Precise, nil)
		r.RawBody = appendProblem(nil, &v, a.decision)
		addHeader(r, "Content-Type", "application/problem+json")
	}
}

func delayOf(all []asked) (string, bool) {
	longest := time.Duration(-1)
	for _, a := range all {
		if a.ask.Limit.Algorithm == algorithm.LeakyBucket && !a.ask.Shadow && a.ask.Mode == algorithm.Charge && a.decision.Outcome == algorithm.Allowed {
			longest = max(longest, a.decision.Delay, 0)
		}
	}
	return strconv.FormatInt(int64(math.Ceil(float64(longest)/float64(time.Millisecond))), 10), longest >= 0
}

func addHeader(r *rlsv3.RateLimitResponse, key, value string) {
	r.ResponseHeadersToAdd = append(r.ResponseHeadersToAdd, &corev3.HeaderValue{Key: key, Value: value})
}
