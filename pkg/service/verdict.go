package service

import (
	"cmp"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// verdict is what the decisions on a request's asks come to.
type verdict struct {
	over bool

	// failed is the reason why there is no verdict, because the store did
	// not decide and the failure policy of the limit is to say so.
	failed  bool
	failure error

	// speaker is the ask whose limit the client is told about; -1 for none.
	// On a denial it is the one that denies longest, otherwise the tightest.
	speaker int
}

// code is the overall code.
func (v *verdict) code() rlsv3.RateLimitResponse_Code {
	if v.over {
		return rlsv3.RateLimitResponse_OVER_LIMIT
	}
	return rlsv3.RateLimitResponse_OK
}

// judge applies the rules of the overall code: a request is over if a limit
// denies it, or if it has quota limits and all of them do. A limit that did not
// decide makes the call an error, unless the request is over anyhow. Shadow
// limits have no say, and clients never hear of them.
func judge(asks []algorithm.Ask, decisions []algorithm.Decision) verdict {
	v := verdict{speaker: -1}
	var quotas struct {
		asked, allowed, denied int
		loosest                int
		failure                error
	}
	quotas.loosest = -1
	for i := range asks {
		a, d := &asks[i], &decisions[i]
		if a.Shadow {
			if a.Quota && a.Counting != algorithm.Precise { // its status is OK
				quotas.asked++
				quotas.allowed++
			}
			continue
		}
		if a.Quota && a.Mode == algorithm.Charge {
			quotas.asked++
			switch d.Outcome {
			case algorithm.Allowed:
				quotas.allowed++
			case algorithm.Denied:
				quotas.denied++
			case algorithm.Undecided:
				quotas.failure = d.Err
			}
			if known(d) && (quotas.loosest < 0 || tighter(asks, decisions, quotas.loosest, i)) {
				quotas.loosest = i
			}
			continue
		}
		switch d.Outcome {
		case algorithm.Allowed:
		case algorithm.Denied:
			v.over = true
		case algorithm.Undecided:
			v.failed, v.failure = true, cmp.Or(v.failure, d.Err)
		}
		v.consider(asks, decisions, i)
	}
	// One quota limit that allows is enough, so the loosest speaks for all.
	v.consider(asks, decisions, quotas.loosest)
	switch {
	case quotas.asked == 0 || quotas.allowed > 0:
	case quotas.denied == quotas.asked:
		v.over = true
	default:
		v.failed, v.failure = true, cmp.Or(v.failure, quotas.failure)
	}
	if v.over {
		v.failed, v.failure = false, nil
	}
	return v
}

// consider makes the i-th ask the speaker if it is tighter than the one so far.
func (v *verdict) consider(asks []algorithm.Ask, decisions []algorithm.Decision, i int) {
	if i >= 0 && known(&decisions[i]) && (v.speaker < 0 || tighter(asks, decisions, i, v.speaker)) {
		v.speaker = i
	}
}

// known reports whether a decision holds numbers that can be shown. One that a
// failure policy allowed, because the store did not decide, has none: how much
// is left nobody knows.
func known(d *algorithm.Decision) bool {
	switch d.Outcome {
	case algorithm.Denied:
		return true
	case algorithm.Allowed:
		return !d.Degraded || d.Err == nil
	default:
		return false
	}
}

// tighter orders decided asks by how much they concern a client: denials
// first, those that last longest before others; then what is nearest to a
// denial. The order does not depend on the position of the asks, unless
// nothing distinguishes them.
func tighter(asks []algorithm.Ask, decisions []algorithm.Decision, i, j int) bool {
	a, b := &decisions[i], &decisions[j]
	return cmp.Or(
		cmp.Compare(b.Outcome, a.Outcome), // Denied > Allowed
		cmp.Compare(b.RetryAfter, a.RetryAfter),
		cmp.Compare(a.Remaining, b.Remaining),
		cmp.Compare(b.Reset, a.Reset),
		cmp.Compare(asks[i].Limit.Requests, asks[j].Limit.Requests),
	) < 0
}

// seconds returns d in whole seconds, rounded up: Envoy drops what is behind
// the point, and a client that came a moment early would be denied again.
func seconds(d time.Duration) int64 {
	return int64((max(d, 0) + time.Second - 1) / time.Second)
}

// wait returns the seconds to tell of a decision on the limit.
func (v *view) wait(d *algorithm.Decision) int64 {
	if v.window < time.Second {
		return wait(d)
	}
	left := d.Reset
	if d.Outcome == algorithm.Denied {
		left = d.RetryAfter
	}
	if d.Never || d.Degraded || left <= 0 { // the store has not told
		left = v.window - time.Duration(time.Now().UnixNano())%v.window
	}
	return max(1, seconds(min(left, v.window)))
}

// wait returns the seconds to tell of a decision: until the same request would
// pass, at least 1, or, when it passed, until the key is as if never seen.
func wait(d *algorithm.Decision) int64 {
	if d.Outcome == algorithm.Denied {
		return max(1, seconds(d.RetryAfter))
	}
	return seconds(d.Reset)
}
