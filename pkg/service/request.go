package service

import "fmt"

// check refuses what only a wrong configuration of the caller can send.
func (b *batch) check(r *request) *Error {
	switch {
	case r.malformed:
		return malformed
	case len(r.domain) == 0:
		return &Error{Kind: InvalidArgument, Message: "rate limit domain must not be empty"}
	case r.descriptors.first == r.descriptors.last:
		return &Error{Kind: InvalidArgument, Message: "rate limit descriptor list must not be empty"}
	}
	return nil
}

// checkEntries refuses entries that name nothing.
func (b *batch) checkEntries(r *request) *Error {
	list := b.of(r)
	for i := range list {
		entries := b.entriesOf(&list[i])
		if len(entries) == 0 && r.strict && !r.excess {
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
func (r *request) hits(d *descriptor) int64 {
	if d.hasHits {
		return int64(min(d.hits, maxHits))
	}
	return int64(max(r.hitsAddend, 1))
}
