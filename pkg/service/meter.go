package service

import (
	"time"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
	"github.com/ratelimitd/ratelimitd/pkg/descriptors"
)

// Meter counts in a way of its own, besides the metrics of this package. It is
// safe for concurrent use, never waits for a network, and keeps nothing of what
// it is told.
type Meter interface {
	// Sheet returns what counts by the rules, before they are in force.
	Sheet(rules *descriptors.Rules) Sheet

	// UnknownDomain tells of a request with so many descriptors for a domain
	// that no policy names.
	UnknownDomain(domain []byte, descriptors int)

	// Answered tells of requests that were answered together.
	Answered(took time.Duration, requests int)

	// Failed tells of a request that was answered with an error, for want of a
	// decision by the store or for another reason.
	Failed(store bool)

	// Shadowed tells of a request that was over and is answered OK because of
	// [Options].Shadow.
	Shadowed()
}

// Sheet counts by one set of rules.
type Sheet interface {
	// Count tells of a decision on a limit of the rules, or on one that a
	// request brought. The entries are those of the descriptor, after
	// [descriptors.Rules.Hide].
	Count(l *descriptors.Limit, entries []descriptors.Entry, a *algorithm.Ask, d *algorithm.Decision)
}

// report tells the sheet of all decisions of the batch.
func (b *batch) report(sheet Sheet) {
	for i := range b.requests {
		r := &b.requests[i]
		if r.asks.first == r.asks.last {
			continue // what it met may have been too much, and was not asked
		}
		list := b.of(r)
		for j := range list {
			entries := b.entriesOf(&list[j])
			for k := list[j].asks.first; k < list[j].asks.last; k++ {
				sheet.Count(b.views[k].limit, entries, &b.asks[k], &b.decisions[k])
			}
		}
	}
}

// wantsStore reports whether an error is for want of the store's decision.
func (e *Error) wantsStore() bool {
	return e != notReady && (e.Kind == Unavailable || e.Kind == DeadlineExceeded || e.Kind == Canceled)
}
