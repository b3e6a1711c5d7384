package service

import (
	"context"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// Account tells what became of one request, for who keeps records of single
// ones. No value of a descriptor is in it.
type Account struct {
	// Domain is the request's, at most 512 bytes of it as UTF-8; Descriptors is
	// how many it has. Both are empty if it could not be read.
	Domain      string
	Descriptors int

	// Code is the overall code; UNKNOWN if the answer was an error.
	Code rlsv3.RateLimitResponse_Code

	// DeniedBy are the limits that denied the request, by their names in the
	// policy: the ID of [descriptors.Limit]. At most 16, and no shadow limits.
	DeniedBy []string

	// DegradedBy is the failure policy that answered in place of the store, if
	// Degraded.
	DegradedBy algorithm.FailurePolicy
	Degraded   bool

	// Asked and Decided are when the store was asked and had decided; zero if it
	// was not. Failure is why it did not decide, or nil.
	Asked, Decided time.Time
	Failure        error
}

// maxDeniedBy bounds an account: a request may meet hundreds of limits.
const maxDeniedBy = 16

// accountKey is the key of an *[Account] in a context.
type accountKey struct{}

// WithAccount returns a context for a call of [Service.ShouldRateLimit], or of a
// server that has the service registered, that is to fill in an account.
func WithAccount(ctx context.Context, a *Account) context.Context {
	return context.WithValue(ctx, accountKey{}, a)
}

// accountOf returns the account of a call, nil if nobody wants one.
func accountOf(ctx context.Context) *Account {
	a, _ := ctx.Value(accountKey{}).(*Account)
	return a
}

// account fills in the account of a request that has been judged.
func (b *batch) account(a *Account, r *request, over bool, err *Error) {
	a.Domain, a.Descriptors = text(r.domain), r.descriptors.last-r.descriptors.first
	if err == nil {
		a.Code = (&verdict{over: over}).code()
	}
	a.DegradedBy, a.Degraded = b.degradedBy(r, anyAsk)
	asked := false
	for i := r.asks.first; i < r.asks.last; i++ {
		d := &b.decisions[i]
		asked = asked || !d.Known
		if d.Err != nil {
			a.Failure = d.Err
		}
		if over && d.Outcome == algorithm.Denied && !b.asks[i].Shadow && len(a.DeniedBy) < maxDeniedBy {
			a.DeniedBy = append(a.DeniedBy, b.views[i].limit.ID)
		}
	}
	if asked {
		a.Asked, a.Decided = b.asked, b.decided
	}
}
