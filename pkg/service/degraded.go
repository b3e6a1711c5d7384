package service

import "github.com/ratelimitd/ratelimitd/pkg/algorithm"

// degradedBy returns which failure policy answered a request in place of the
// store, and whether one did. Where several have, the one that goes before the
// others. Only those asks count of which told reports true. It goes by the
// answers, for what is shed is denied whatever its policy; only a local one has
// no error.
func (b *batch) degradedBy(r *request, told func(*algorithm.Ask) bool) (algorithm.FailurePolicy, bool) {
	strongest, found := algorithm.FailAllow, false
	for i := r.asks.first; i < r.asks.last; i++ {
		if !b.decisions[i].Degraded || !told(&b.asks[i]) {
			continue
		}
		found = true
		switch d := &b.decisions[i]; {
		case d.Err == nil:
			strongest = algorithm.FailLocal
		case d.Outcome == algorithm.Denied:
			return algorithm.FailDeny, true
		}
	}
	return strongest, found
}

func anyAsk(*algorithm.Ask) bool { return true }

// toClients reports whether clients hear of an ask.
func toClients(a *algorithm.Ask) bool { return !a.Shadow }

// appendDegraded appends the header that tells of a failure policy.
func (b *batch) appendDegraded(reply []byte, r *request) []byte {
	by, degraded := b.degradedBy(r, toClients)
	if !degraded {
		return reply
	}
	return appendHeader(reply, "X-RateLimit-Degraded", by.String())
}
