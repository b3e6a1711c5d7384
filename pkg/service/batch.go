package service

import (
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
	"github.com/ratelimitd/ratelimitd/pkg/descriptors"
)

const (
	// A batch that holds as many takes no further request. Together with the
	// bounds on a single request (decode.go) these bound its memory, since two
	// bytes on the wire can be a descriptor.
	fullRequests    = 1024
	fullDescriptors = 1024
	fullAsks        = 512 // decided at once, while others wait
	fullEntries     = 4096

	// One that grew past these is left to the garbage collector, so that
	// large requests do not occupy memory for good.
	maxPooledDescriptors = 4 * fullDescriptors
	maxPooledEntries     = 4 * fullEntries
	maxPooledKeys        = 512 << 10
)

// batch is the working memory of requests that are decided together: what they
// say, what is asked of the store and what that says. It is reused.
type batch struct {
	requests    []request
	descriptors []descriptor        // of all requests, one after the other
	entries     []descriptors.Entry // of all descriptors

	rules     []*descriptors.Rule  // by descriptor; nil: no rule, or replaced
	asks      []algorithm.Ask      // of all descriptors
	views     []*view              // by ask
	decisions []algorithm.Decision // by ask
	keys      []byte               // what the asks' keys point into, and hidden values

	accounted      bool      // some request has an account
	asked, decided time.Time // of the asks, if accounted
}

// span is a part of one of the batch's slices.
type span struct{ first, last int }

// request is one of the requests, and what it came to before anything was
// decided. Its bytes are those of the message.
type request struct {
	domain []byte

	// hitsAddend is the cost of each descriptor that has none of its own;
	// 0 means 1.
	hitsAddend uint32

	strict    bool // as in [Exchange]
	excess    bool // it had more descriptors or entries than are stored
	malformed bool

	descriptors, asks span
	firstEntry        int

	// What is answered without a decision: an error, or one code for all.
	err  *Error
	bare rlsv3.RateLimitResponse_Code
}

// descriptor is one of the descriptors of a request.
type descriptor struct {
	entries, asks span

	// override is the limit to use in place of the configured one, if
	// hasOverride. A Multiplier of 0 means that none was sent.
	override    descriptors.Override
	hasOverride bool

	// hits is the cost of this descriptor, if hasHits; 0 looks without
	// counting.
	hasHits bool
	hits    uint64

	isNegative bool // gives the hits back

	brought *view // the limit of the override; nil: it has none, or an unknown one
}

// reset makes b empty and keeps its memory. It lets go of the messages and of
// the rules.
func (b *batch) reset() {
	clear(b.requests)
	clear(b.descriptors)
	clear(b.entries)
	clear(b.rules)
	clear(b.asks)
	clear(b.views)
	clear(b.decisions)
	*b = batch{
		requests: b.requests[:0], descriptors: b.descriptors[:0], entries: b.entries[:0], rules: b.rules[:0],
		asks: b.asks[:0], views: b.views[:0], decisions: b.decisions[:0], keys: b.keys[:0],
	}
}

// full reports whether b should take no further request.
func (b *batch) full() bool {
	return len(b.requests) >= fullRequests || len(b.descriptors) >= fullDescriptors || len(b.entries) >= fullEntries || len(b.asks) >= fullAsks
}

// large reports whether b holds too much memory to be kept.
func (b *batch) large() bool {
	return max(cap(b.descriptors), cap(b.asks)) > maxPooledDescriptors || cap(b.entries) > maxPooledEntries || cap(b.keys) > maxPooledKeys
}

// of returns the descriptors of a request.
func (b *batch) of(r *request) []descriptor {
	return b.descriptors[r.descriptors.first:r.descriptors.last]
}

// entriesOf returns the entries of a descriptor.
func (b *batch) entriesOf(d *descriptor) []descriptors.Entry {
	return b.entries[d.entries.first:d.entries.last:d.entries.last]
}

// count adds the decisions to the counters of their rules. Neighbours that
// came to the same are added at once, since a counter that all cores write to
// is slow.
func (b *batch) count() {
	var run tally
	for i := range b.asks {
		s, o := b.views[i].series, outcomeOf(&b.asks[i], &b.decisions[i])
		if s != run.series || o != run.outcome {
			run.add()
			run = tally{series: s, outcome: o}
		}
		run.decisions++
		run.hits += max(0, b.decisions[i].After-b.decisions[i].Before)
	}
	run.add()
}
