package statsd

import (
	"sync"

	"github.com/ratelimitd/ratelimitd/pkg/descriptors"
)

// family is the names of one limit that have values of requests in them, or
// those of all limits that requests bring along for one domain. It is safe for
// concurrent use.
type family struct {
	pattern pattern

	mu       sync.RWMutex
	members  map[string]*named // by name before it is cleaned
	overflow *named            // nil: none was one too many so far
	left     bool
}

// member returns the counters for the entries of a request. It allocates only
// for a name that is new.
func (f *family) member(t *Tally, entries []descriptors.Entry) *named {
	var room [256]byte
	name := f.pattern.append(room[:0], entries)
	f.mu.RLock()
	found, full := f.members[string(name)], f.overflow
	f.mu.RUnlock()
	switch {
	case found != nil:
		return found
	case full != nil && (len(name) > longestName || !f.room(t)):
		return full
	}
	return f.join(t, name)
}

// room reports whether there may be one more name.
func (f *family) room(t *Tally) bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.hasRoom(t)
}

func (f *family) hasRoom(t *Tally) bool {
	return !f.left && len(f.members) < t.options.MaxNames && t.taken.Load() < int64(t.options.MaxNamesInAll)
}

// join adds a name, if there is room for it.
func (f *family) join(t *Tally, name []byte) *named {
	t.mu.Lock()
	defer t.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	if found := f.members[string(name)]; found != nil {
		return found
	}
	if len(name) > longestName || !f.hasRoom(t) {
		if f.overflow == nil {
			f.overflow = t.named(f.pattern.overflow())
		}
		return f.overflow
	}
	if f.members == nil {
		f.members = make(map[string]*named)
	}
	text := string(name)
	n := t.named(text)
	f.members[text] = n
	t.taken.Add(1)
	return n
}

// leave ends a family whose rules are not in force any more. It takes no more
// names.
func (f *family) leave(t *Tally) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left = true
	t.taken.Add(-int64(len(f.members)))
}

// stay has the members belong to the rules of a generation.
func (f *family) stay(generation int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range f.members {
		n.generation = generation
	}
	if f.overflow != nil {
		f.overflow.generation = generation
	}
}
