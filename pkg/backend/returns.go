package backend

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// charged reports whether the store has charged an ask on the condition that its
// request passes.
func charged(a *algorithm.Ask, d *algorithm.Decision) bool {
	return (a.Vetoes() || a.OneOfQuotas()) && !a.Limit.Overdraw && d.Outcome == algorithm.Allowed && d.After > d.Before && !d.Degraded
}

// passes reports whether a request goes through, all its places taken together.
// What one of them did not decide counts as its failure policy says: one that is to be
// decided locally is taken to fit; where it is an error the request does not go
// through.
func passes(asks []algorithm.Ask, out []algorithm.Decision) bool {
	quotas, fitting := 0, 0
	for i := range asks {
		fits := out[i].Outcome == algorithm.Allowed ||
			out[i].Outcome == algorithm.Undecided && (asks[i].OnStoreError == algorithm.FailAllow || asks[i].OnStoreError == algorithm.FailLocal)
		switch {
		case asks[i].Withheld:
			return false
		case asks[i].OneOfQuotas():
			quotas++
			if fits {
				fitting++
			}
		case asks[i].Vetoes() && !fits:
			return false
		}
	}
	return quotas == 0 || fitting > 0
}

// refunds yields, by its index, what gives an ask's charge back, of what was charged
// since an instant for a request that does not pass, and shows decisions without it.
func refunds(began time.Time, asks []algorithm.Ask, out []algorithm.Decision) iter.Seq2[int, algorithm.Ask] {
	return func(yield func(int, algorithm.Ask) bool) {
		if passes(asks, out) {
			return
		}
		for i := range asks {
			if !charged(&asks[i], &out[i]) {
				continue
			}
			late, back := tooLate(&out[i], began), uncharge(&asks[i], &out[i])
			if !late && !yield(i, back) {
				return
			}
		}
	}
}

// tooLate reports whether what was charged since an instant will be free by the
// time that it could be given back, which takes as long as to charge it: then it
// would be taken off what others have charged in the next window.
func tooLate(d *algorithm.Decision, began time.Time) bool { return d.Reset <= 2*time.Since(began) }

// uncharge shows a decision without what it has charged, and returns the ask that
// gives that back.
func uncharge(a *algorithm.Ask, d *algorithm.Decision) algorithm.Ask {
	d.After = d.Before
	d.Remaining = max(0, a.Limit.Capacity-d.After)
	return algorithm.Ask{Key: a.Key, Limit: a.Limit, Hits: a.Hits, Mode: algorithm.GiveBack}
}

// maxReturns bounds how many batches may be on their way to give charges back.
const maxReturns = 4096

// returns gives back to a store, in the background, what it has charged for
// requests that do not pass. What finds no room stays charged, and so does what
// the store does not take back in time.
type returns struct {
	room    chan struct{}
	going   sync.WaitGroup
	timeout time.Duration // of each batch
	counts  undos
	failing *sparingLog
}

func newReturns(timeout time.Duration, counts undos, failing *sparingLog) *returns {
	return &returns{room: make(chan struct{}, maxReturns), timeout: timeout, counts: counts, failing: failing}
}

// close waits for what is on its way.
func (r *returns) close() { r.going.Wait() }

// decideFunc is the method of a decider.
type decideFunc func(ctx context.Context, asks []algorithm.Ask, out []algorithm.Decision)

// send gives charges back, once, also when the context has ended, and counts what
// became of each. The asks must be the sender's no more; their keys may be.
func (r *returns) send(ctx context.Context, store decideFunc, asks []algorithm.Ask) <-chan []algorithm.Decision {
	back, out := make(chan []algorithm.Decision, 1), make([]algorithm.Decision, len(asks))
	select {
	case r.room <- struct{}{}:
	default:
		r.counts.failed.Add(float64(len(asks)))
		back <- out
		return back
	}
	for i := range asks {
		asks[i].Key, asks[i].Group = append([]byte(nil), asks[i].Key...), int32(i)
	}
	r.going.Go(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.timeout)
		defer cancel()
		store(ctx, asks, out)
		r.report(out)
		back <- out
		<-r.room
	})
	return back
}

func (r *returns) report(back []algorithm.Decision) {
	r.counts.count(back)
	for i := range back {
		if back[i].Outcome != algorithm.Allowed {
			r.failing.Warn("a charge could not be given back", "reason", back[i].Err)
		}
	}
}

// returnCharges gives back what the store, asked at an instant, has charged for
// requests that are denied here, as in a Cluster where some nodes decide and others
// do not.
func (l *Local) returnCharges(asked time.Time, asks []algorithm.Ask, out []algorithm.Decision) {
	var undo []algorithm.Ask
	for from, to := range groups(asks) {
		for _, back := range refunds(asked, asks[from:to], out[from:to]) {
			undo = append(undo, back)
		}
	}
	if len(undo) > 0 {
		l.returns.send(context.Background(), l.home.store.Decide, undo)
	}
}
