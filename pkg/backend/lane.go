package backend

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// patience is how long a batch has been on its way before another may leave
	// besides it. One at a time gathers the largest batches; where the way is
	// long, or one is held up, the others need not wait for it.
	patience = 500 * time.Microsecond

	// tripsToKnow is how many batches tell how long the way is: as long as the
	// quickest of them took.
	tripsToKnow = 64

	// maxRunning is how many batches a lane may have under way.
	maxRunning = 4

	// maxBatch is how many asks may gather into one batch: a script keeps Redis
	// from all else. Asks that came together stay together.
	maxBatch = 512

	// maxWaiting is how many asks may wait in a lane. More are refused at once:
	// they would not be answered in time.
	maxWaiting = 1 << 15
)

// lane is the way to one server. What is asked while a batch is on its way
// waits, and leaves as one batch as soon as an earlier one is back.
type lane struct {
	run     func(batch []*errand)
	breaker *breaker
	errands sync.Pool // *errand, for newErrand

	most  int // how many batches may be under way
	large int // how many asks a batch gathers

	budget time.Duration // within which asks are to be decided
	strain strain
	total  *atomic.Int64 // the sum of all lanes' strain; nil: nobody wants to know

	mu      sync.Mutex // protects what follows
	running int
	left    time.Time // when the latest of those that are running left
	waiting []*errand
	asks    int // of those that wait

	way      time.Duration // how long it is, as far as is known
	trips    int           // since way was set
	quickest time.Duration // of those trips
	took     time.Duration // how long batches take at present
}

// enter reports whether the lane is free. If so the caller runs what it has by
// itself, and then calls leave with the instant.
func (l *lane) enter() (began time.Time, ok bool) {
	l.mu.Lock()
	defer l.unlock()
	if len(l.waiting) > 0 || l.breaker.refusal() != nil || !l.start() {
		return time.Time{}, false
	}
	return l.left, true
}

// start counts one more batch, if it may leave now.
func (l *lane) start() bool {
	now := time.Now()
	switch {
	case l.running == 0:
	case l.running >= l.most || l.way < patience && now.Sub(l.left) < patience:
		return false
	}
	l.running++
	l.left = now
	return true
}

// leave ends what enter began, and sets off what has gathered meanwhile.
func (l *lane) leave(began time.Time) {
	l.mu.Lock()
	defer l.unlock()
	l.learn(began)
	if len(l.waiting) > 0 {
		go l.serve()
		return
	}
	l.running--
}

// learn takes note of how long a batch has taken.
func (l *lane) learn(began time.Time) {
	took := time.Since(began)
	if more := min(took, 2*l.budget) - l.took; more > 0 { // by what took for ever it would not come back soon
		l.took += more / 8 // one stall is no strain
	} else {
		l.took += more / 2
	}
	if l.trips == 0 || took < l.quickest {
		l.quickest = took
	}
	if l.trips++; l.trips == tripsToKnow {
		l.way, l.trips = l.quickest, 0
	}
}

// add has an errand run with the next batch. It fails when too much waits
// already, or the breaker is open.
func (l *lane) add(e *errand) error {
	if err := l.breaker.refusal(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.unlock()
	if l.asks > 0 && l.asks+len(e.asks) > maxWaiting {
		return errQueueFull
	}
	l.waiting = append(l.waiting, e)
	l.asks += len(e.asks)
	if l.start() {
		go l.serve()
	}
	return nil
}

// serve runs batches until nothing waits.
func (l *lane) serve() {
	var batch []*errand
	var began time.Time
	for {
		if batch, began = l.take(batch[:0], began); len(batch) == 0 {
			return
		}
		l.run(batch)
		for _, e := range batch {
			e.finish()
		}
		clear(batch)
	}
}

// take returns the errands of the next batch that somebody still waits for, and
// the instant. If there are none the server's turn ends. last is when its batch
// before left, if it had one.
func (l *lane) take(batch []*errand, last time.Time) ([]*errand, time.Time) {
	l.mu.Lock()
	defer l.unlock()
	if !last.IsZero() {
		l.learn(last)
	}
	taken, asks := 0, 0
	for _, e := range l.waiting {
		if asks > 0 && asks+len(e.asks) > l.large {
			break
		}
		taken++
		l.asks -= len(e.asks)
		if !e.begin() {
			continue
		}
		asks += len(e.asks)
		batch = append(batch, e)
	}
	rest := copy(l.waiting, l.waiting[taken:])
	clear(l.waiting[rest:])
	l.waiting = l.waiting[:rest]
	if len(batch) == 0 {
		l.running--
	} else {
		l.left = time.Now()
	}
	return batch, l.left
}

// endOf is the deadline of a batch: that of the errand with the latest, so that
// none ends another. It is zero when an errand has none.
func endOf(batch []*errand) time.Time {
	var end time.Time
	for _, e := range batch {
		own, ok := e.ctx.Deadline()
		if !ok {
			return time.Time{}
		}
		if own.After(end) {
			end = own
		}
	}
	return end
}

// until is a context with a deadline and without a timer. It is for what looks
// at the deadline by itself, as sockets do.
type until struct {
	context.Context
	end time.Time
}

func (u until) Deadline() (time.Time, bool) { return u.end, true }

// contextUntil returns a context that ends at end, or never when that is zero.
func contextUntil(end time.Time) context.Context {
	if end.IsZero() {
		return context.Background()
	}
	return until{context.Background(), end}
}
