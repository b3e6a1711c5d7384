package backend

import (
	"sync/atomic"
	"time"
)

// How strained a store must be, in thousandths of what can be borne, for asks
// to be shed: sheddable ones, then default ones, and at last critical ones. A
// priority is asked for again only when there is a quarter less, so that it does
// not come and go.
var (
	shedFrom  = [...]int64{500, 750, 1000}
	shedUntil = [...]int64{375, 562, 750}
)

// strain is how hard-pressed something is: 0 when idle, 1000 when what is asked
// of it now cannot be answered in time. Besides, it keeps what is shed for that.
// It is safe for concurrent use; the zero value is idle.
type strain struct {
	now   atomic.Int64
	level atomic.Int32 // how many priorities are shed
}

// set sets the strain and returns by how much it has grown. For what is idle
// nothing is shed. One goroutine at a time may set it.
func (s *strain) set(thousandths int64) int64 {
	before := s.now.Load()
	if before == thousandths { // as it is nearly always: 0
		return 0
	}
	if thousandths == 0 {
		s.level.Store(0)
	}
	s.now.Store(thousandths)
	return thousandths - before
}

// shed returns how many priorities are to be shed: 0 to 3. more is the strain of
// what is not this thing's own.
func (s *strain) shed(more int64) int32 {
	now, before := s.now.Load()+more, s.level.Load()
	level := before
	for level < int32(len(shedFrom)) && now >= shedFrom[level] {
		level++
	}
	for level > 0 && now < shedUntil[level-1] {
		level--
	}
	if level != before {
		s.level.Store(level)
	}
	return level
}

// thousandths is a part of a whole. All of what is nothing is more than can be
// borne.
func thousandths(part, whole time.Duration) int64 {
	const most = 1_000_000
	switch {
	case part <= 0:
		return 0
	case whole <= 0:
		return most
	}
	return int64(min(most, float64(part)/float64(whole)*1000))
}

// unlock gives a lane back, and tells how strained it is:
//
//	wait   = took × (1 + (waiting + maxBatch) / (maxBatch × running))
//	strain = (wait − way) / (budget − way)
//
// An ask that comes now is decided after as long as its batch takes. Before that
// it waits until those are on their way that wait already, as many as may be in
// each, and its own may leave: running of them do so in the time that one takes.
// While its batch could leave at once, it waits for nothing. The way itself is no
// strain: what is left of the budget besides it can be spent waiting. A lane that
// is idle, or where nothing waits and nothing takes long, has none.
func (l *lane) unlock() {
	if l.total != nil {
		if more := l.strain.set(l.strained()); more != 0 {
			l.total.Add(more)
		}
	}
	l.mu.Unlock()
}

// calm is the part of the budget that a batch may take before it is any strain.
const calm = 16

func (l *lane) strained() int64 {
	queued := l.asks > 0 || l.running == l.most
	if l.running == 0 || !queued && l.took-l.way < l.budget/calm {
		return 0
	}
	wait := l.took
	if queued {
		wait += l.took * time.Duration(l.asks+l.large) / time.Duration(l.large*l.running)
	}
	return thousandths(wait-l.way, l.budget-l.way)
}
