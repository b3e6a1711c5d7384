package service

import (
	"fmt"
	"slices"

	"github.com/ratelimitd/ratelimitd/pkg/descriptors"
)

const (
	// maxStoredDescriptors and maxStoredEntries bound the memory that one
	// request may take, since two bytes on the wire can be a descriptor. A
	// request with more is answered OVER_LIMIT.
	maxStoredDescriptors = 1 << 16
	maxStoredEntries     = 1 << 18

	// A pooled request that grew past these is left to the garbage
	// collector, so that one large request does not occupy memory for good.
	maxPooledBytes       = 64 << 10
	maxPooledDescriptors = 256
	maxPooledEntries     = 1024
)

// Request is a RateLimitRequest. Its strings are the bytes that were sent,
// valid UTF-8 or not. The zero value is an empty request.
//
// A Request may be used by one goroutine at a time. Its slices stay valid
// until the next Unmarshal or Reset.
type Request struct {
	Domain      []byte
	Descriptors []Descriptor

	// HitsAddend is the cost of each descriptor that has none of its own;
	// 0 means 1.
	HitsAddend uint32

	// Strict makes a descriptor without entries an error; otherwise it meets
	// no rule. Proxies must not be told: see [IsLibrary].
	Strict bool

	wire      []byte              // what the slices above point into
	entries   []descriptors.Entry // of all descriptors, one after the other
	excess    bool                // it had more than is stored
	malformed *Error              // why Unmarshal failed
}

// Descriptor is one of the descriptors of a [Request].
type Descriptor struct {
	Entries []descriptors.Entry

	// Override is the limit to use in place of the configured one, if
	// HasOverride. A Multiplier of 0 means that none was sent.
	Override    descriptors.Override
	HasOverride bool

	// Hits is the cost of this descriptor, if HasHits; 0 looks without
	// counting.
	Hits    uint64
	HasHits bool

	// IsNegative gives the hits back.
	IsNegative bool

	first, last int // entries[first:last] of the request, while decoding
}

// large reports whether r holds too much memory to be kept for another call.
func (r *Request) large() bool {
	return cap(r.wire) > maxPooledBytes || cap(r.Descriptors) > maxPooledDescriptors || cap(r.entries) > maxPooledEntries
}

// Reset makes r an empty request and keeps its memory.
func (r *Request) Reset() {
	clear(r.Descriptors)
	clear(r.entries)
	*r = Request{Descriptors: r.Descriptors[:0], wire: r.wire[:0], entries: r.entries[:0]}
}

// hasEmpty reports whether a descriptor has no entries.
func (r *Request) hasEmpty() bool {
	return slices.ContainsFunc(r.Descriptors, func(d Descriptor) bool { return len(d.Entries) == 0 })
}

// check refuses what only a wrong configuration of the caller can send.
func (r *Request) check() *Error {
	switch {
	case r.malformed != nil:
		return r.malformed
	case len(r.Domain) == 0:
		return &Error{Kind: InvalidArgument, Message: "rate limit domain must not be empty"}
	case len(r.Descriptors) == 0:
		return &Error{Kind: InvalidArgument, Message: "rate limit descriptor list must not be empty"}
	}
	for i := range r.Descriptors {
		entries := r.Descriptors[i].Entries
		if len(entries) == 0 && r.Strict && !r.excess {
			return &Error{Kind: InvalidArgument, Message: fmt.Sprintf("descriptors[%d] has no entries", i)}
		}
		for j := range entries {
			if len(entries[j].Key) == 0 {
				return &Error{Kind: InvalidArgument, Message: fmt.Sprintf("descriptors[%d].entries[%d] has an empty key", i, j)}
			}
		}
	}
	return nil
}

// maxHits stands for every larger number of hits: no limit holds as many, and
// sums of it stay far from overflow.
const maxHits = 1 << 53

// hits returns what a descriptor asks for: its own hits, where 0 looks, or the
// request's, where 0 and absent mean 1.
func (r *Request) hits(d *Descriptor) int64 {
	if d.HasHits {
		return int64(min(d.Hits, maxHits))
	}
	return int64(max(r.HitsAddend, 1))
}
