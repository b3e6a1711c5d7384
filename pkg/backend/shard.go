package backend

import (
	"sync"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// shard is one part of a [Memory]: entries by key, and two agendas that say
// which entry to look at next. Every entry is in one of the agendas, but for
// those of the request that is being decided.
type shard struct {
	mu       sync.Mutex // protects all that follows
	maxKeys  int
	maxBytes int64 // 0: no bound
	bytes    int64
	entries  index

	// spare holds entries that let a hit through. due ≤ their expiry, so
	// that the first is, once due is brought up to date, the one nearest to
	// "never seen".
	spare agenda

	// denying holds entries that deny a hit. due ≤ the instant from which
	// they do not, so that all deny while the first is not due.
	denying agenda
}

// entry is the state of one key.
type entry struct {
	key   string
	limit *algorithm.Limit // by which it was last decided
	state algorithm.State
	due   int64 // µs since the epoch

	// What follows is small, since there are many entries.
	size  int32 // bytes, as weighed last
	index int32 // in the agenda
	in    agendaID
	gone  bool // dropped, though a request may still point at it
}

// entryOverhead is about what an entry takes besides its key and its log: the
// struct, its place in the map and in an agenda.
const entryOverhead = 150

func newShard(hash func(key string) uint64, maxKeys, maxBytes int64) *shard {
	return &shard{
		maxKeys: int(max(1, maxKeys)), maxBytes: maxBytes, entries: newIndex(hash),
		spare: agenda{id: inSpare}, denying: agenda{id: inDenying},
	}
}

// overweight reports whether logs have grown past the bound on bytes.
func (s *shard) overweight() bool { return s.maxBytes != 0 && s.bytes > s.maxBytes }

// insert adds a key, unless its state equals "never seen" after all.
func (s *shard) insert(hash uint64, ask *algorithm.Ask, state algorithm.State, now int64) {
	if ask.Limit.Expiry(&state) <= now {
		return
	}
	e := &entry{key: string(ask.Key), limit: ask.Limit, state: state}
	s.entries.add(hash, e)
	s.weigh(e)
	s.place(e, now, false)
}

// update brings the agendas into line with an entry that was decided: expiry
// is that of its state, and spare says that it is known to let a hit through.
func (s *shard) update(e *entry, limit *algorithm.Limit, now, expiry int64, spare bool) {
	if e.gone {
		return
	}
	e.limit = limit
	s.weigh(e)
	switch {
	case expiry <= now:
		s.drop(e)
	case spare && e.in == inSpare:
		// Most of the time expiry has moved on, and due may lag behind.
		if expiry < e.due {
			s.spare.reschedule(e, expiry)
		}
	case !spare && e.in == inDenying:
		// A charge only prolongs a denial, so that due may lag behind.
	default:
		s.place(e, now, spare)
	}
}

// place puts an entry into the agenda where it belongs.
func (s *shard) place(e *entry, now int64, spare bool) {
	if !spare && e.limit.Denies(e.state, now) {
		e.due = endOfDenial(e.limit, e.state, now)
		s.move(e, &s.denying)
		return
	}
	e.due = e.limit.Expiry(&e.state)
	s.move(e, &s.spare)
}

// schedule puts an entry without an agenda where it will soon be looked at.
func (s *shard) schedule(e *entry) {
	s.move(e, &s.denying)
}

func (s *shard) move(e *entry, to *agenda) {
	s.leave(e)
	to.add(e)
}

// leave takes an entry out of the agenda that it is in, if any.
func (s *shard) leave(e *entry) {
	switch e.in {
	case inSpare:
		s.spare.remove(e)
	case inDenying:
		s.denying.remove(e)
	case inNone:
	}
}

// weigh brings the count of bytes up to date with an entry.
func (s *shard) weigh(e *entry) {
	size := int32(entryOverhead + len(e.key) + 8*cap(e.state.Log))
	s.bytes += int64(size - e.size)
	e.size = size
}

// drop forgets a key.
func (s *shard) drop(e *entry) {
	s.entries.remove(e)
	e.gone = true
	s.bytes -= int64(e.size)
	s.leave(e)
}

// tidy looks at up to n entries of each agenda that are due: it drops those
// that have expired, and moves those that deny no longer.
func (s *shard) tidy(now int64, n int) {
	for ; n > 0; n-- {
		spare, denying := s.spare.first(), s.denying.first()
		if (spare == nil || spare.due > now) && (denying == nil || denying.due > now) {
			return
		}
		if denying != nil && denying.due <= now {
			s.reconsider(denying, now)
		}
		if spare != nil && spare.due <= now {
			s.reconsider(spare, now)
		}
	}
}

// reconsider drops an entry that has expired, and else finds its place anew.
func (s *shard) reconsider(e *entry, now int64) {
	if e.limit.Expiry(&e.state) <= now {
		s.drop(e)
		return
	}
	s.leave(e)
	s.place(e, now, false)
}

// hasRoom reports whether n more keys are within bounds.
func (s *shard) hasRoom(n int) bool {
	return s.entries.len()+n <= s.maxKeys && (s.maxBytes == 0 || s.bytes+int64(n)*entryOverhead <= s.maxBytes)
}

// makeRoom drops entries until n more keys are within bounds: expired ones,
// then those nearest to "never seen", but none that denies. It returns how
// many were live, and whether there is room.
func (s *shard) makeRoom(now int64, n int) (live int, ok bool) {
	for !s.hasRoom(n) {
		before := s.entries.len()
		s.tidy(now, 8)
		if s.entries.len() < before {
			continue
		}
		victim := s.nearest()
		if victim == nil {
			return live, false
		}
		if victim.limit.Expiry(&victim.state) > now {
			live++
		}
		s.drop(victim)
	}
	return live, true
}

// nearest returns the entry nearest to "never seen" of those that do not deny,
// or nil. It brings due up to date only so often: by then the first is at least
// nearer than most.
func (s *shard) nearest() *entry {
	const tries = 64
	for range tries {
		e := s.spare.first()
		if e == nil {
			return nil
		}
		expiry := e.limit.Expiry(&e.state)
		if expiry <= e.due {
			return e
		}
		s.spare.reschedule(e, expiry)
	}
	return s.spare.first()
}

// endOfDenial returns the first instant from which a state that denies a hit
// now lets one through; its expiry at the latest. Denial ends once and for
// all, so that halving finds it.
func endOfDenial(limit *algorithm.Limit, state algorithm.State, now int64) int64 {
	from, to := now, limit.Expiry(&state) // denies at from
	for to-from > 1 {
		middle := from + (to-from)/2
		if limit.Denies(state, middle) {
			from = middle
		} else {
			to = middle
		}
	}
	return to
}
