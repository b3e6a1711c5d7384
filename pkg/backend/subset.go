package backend

import "github.com/ratelimitd/ratelimitd/pkg/algorithm"

// subset is some of the asks of a batch, to be decided by themselves. It is
// reused: after forget it is empty.
type subset struct {
	asks []algorithm.Ask
	at   []int // where each of asks comes from
	out  []algorithm.Decision
}

// add adds the ask at a place of the batch, and returns the copy for the caller
// to change.
func (s *subset) add(ask *algorithm.Ask, at int) *algorithm.Ask {
	s.asks, s.at = append(s.asks, *ask), append(s.at, at)
	return &s.asks[len(s.asks)-1]
}

// seal ends the adding: out has room for a decision on each ask.
func (s *subset) seal() {
	s.out = append(s.out[:0], make([]algorithm.Decision, len(s.asks))...)
}

// deliver puts the decisions where the asks came from.
func (s *subset) deliver(out []algorithm.Decision) {
	for i, at := range s.at {
		out[at] = s.out[i]
	}
}

// forget drops references, so that a pooled subset keeps no key alive, and what
// a very large batch has made it grow to.
func (s *subset) forget() {
	if cap(s.asks) > 1024 {
		*s = subset{}
		return
	}
	clear(s.asks)
	clear(s.out)
	s.asks, s.at, s.out = s.asks[:0], s.at[:0], s.out[:0]
}
