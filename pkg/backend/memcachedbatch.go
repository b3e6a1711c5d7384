package backend

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// errContended is the reason for which what others charge all the time is not
// decided.
var errContended = fmt.Errorf("%w: others change the counter all the time", ErrUnavailable)

// crowd is how long a batch waits at most, for each time that others were quicker,
// before it tries again: by chance, so that of several processes one comes first.
const (
	crowd    = 100 * time.Microsecond
	maxCrowd = 2 * time.Millisecond
)

// runErrands decides a batch.
func (s *memcachedServer) runErrands(batch []*errand) {
	defer func() {
		if p := recover(); p != nil { // it would end the process, not only a request
			for _, e := range batch {
				fail(e.out, fmt.Errorf("%w: panic: %v", ErrLost, p))
			}
		}
	}()
	err := s.lane.breaker.do(func() error {
		end := endOf(batch)
		if latest := time.Now().Add(s.store.options.Timeout); end.IsZero() || latest.Before(end) {
			end = latest
		}
		return s.decide(batch, end)
	})
	if err != nil {
		for _, e := range batch {
			fail(e.out, err)
		}
	}
}

// decide decides a batch in rounds, until nothing is left or the end has come. The
// error is what it says of the server.
func (s *memcachedServer) decide(batch []*errand, end time.Time) error {
	began, x := time.Now(), s.begin(end)
	defer s.release(x)
	r := &round{server: s, session: x, pending: requestsOf(batch)}
	var verdict error // the first
	for tries := 1; len(r.pending) > 0; tries++ {
		if err := r.run(); verdict == nil {
			verdict = err
		}
		if len(r.pending) == 0 {
			break
		}
		wait := time.Duration(rand.Int64N(int64(min(time.Duration(tries)*crowd, maxCrowd))))
		if time.Until(end) <= wait {
			for _, q := range r.pending {
				q.fail(errContended)
			}
			r.pending, r.late = nil, true
			break
		}
		if tries > 1 {
			time.Sleep(wait)
		}
		r.contended = true
	}
	if verdict == nil && (r.late || r.contended && time.Since(began) > s.store.options.Budget) {
		return errNoVerdict // it has taken long for what others did
	}
	return verdict
}

// request is a request of a batch, until its counters are charged as they were
// decided on.
type request struct {
	asks     []algorithm.Ask
	out      []algorithm.Decision
	counters []*counter // of each ask in this round; nil: decided, and charged, in one before
}

// requestsOf returns the requests of a batch whose callers still wait.
func requestsOf(batch []*errand) []*request {
	var all []*request
	for _, e := range batch {
		for from, to := range groups(e.asks) {
			if abandoned(&e.asks[from]) {
				fail(e.out[from:to], errGone)
				continue
			}
			all = append(all, &request{e.asks[from:to], e.out[from:to], make([]*counter, to-from)})
		}
	}
	return all
}

// round reads the counters of requests, decides, and writes what has changed.
// What is left then is for the next round.
type round struct {
	server    *memcachedServer
	session   *session
	pending   []*request
	contended bool // others were quicker
	late      bool // until there was no more time

	counters []*counter
	byKey    map[string]*counter
}

func (r *round) run() error {
	first := r.counters == nil
	r.gather(first)
	if err := r.server.read(r.session, r.counters); err != nil {
		for _, q := range r.pending {
			q.fail(err)
		}
		r.pending = nil
		return err
	}
	now := time.Now().UnixMicro()
	var states []*algorithm.State
	for _, q := range r.pending {
		states = q.decide(now, states[:0])
	}
	err := r.server.write(r.session, r.counters, now)
	left := r.pending[:0]
	for _, q := range r.pending {
		if q.settle() {
			left = append(left, q)
		}
	}
	r.pending = left
	return err
}

// gather finds out which counters the pending requests need.
func (r *round) gather(first bool) {
	r.counters, r.byKey = nil, make(map[string]*counter)
	for _, q := range r.pending {
		for i := range q.asks {
			if q.counters[i] == nil && !first {
				continue
			}
			key := string(q.asks[i].Key)
			c := r.byKey[key]
			if c == nil {
				c = &counter{key: memcachedKey(q.asks[i].Key), limit: q.asks[i].Limit}
				r.counters, r.byKey[key] = append(r.counters, c), c
			}
			q.counters[i] = c
		}
	}
}

// decide decides the request on its counters as the ones before it in the batch
// have left them.
func (q *request) decide(now int64, states []*algorithm.State) []*algorithm.State {
	for _, c := range q.counters {
		switch {
		case c == nil:
			states = append(states, nil)
		case c.err != nil:
			q.fail(c.err)
			clear(q.counters)
			return states
		default:
			states = append(states, &c.state)
		}
	}
	algorithm.Decide(now, q.asks, states, q.out)
	return states
}

// fail leaves undecided what is asked in this round.
func (q *request) fail(err error) {
	for i, c := range q.counters {
		if c != nil {
			q.out[i] = algorithm.Decision{Err: err}
		}
	}
}

// settle is told what became of the counters, and reports whether some of the
// request has to be decided anew, since others were quicker. What was charged stays
// charged, to be given back by [settle] if the request does not pass. Where
// a counter could not be written, what is not charged by then is left undecided:
// whether the request passes is not known any more.
func (q *request) settle() (again bool) {
	var failed error
	for _, c := range q.counters {
		if c != nil && c.err != nil {
			failed = c.err
		}
	}
	for i, c := range q.counters {
		switch {
		case c == nil:
		case c.err != nil:
			q.out[i], q.counters[i] = algorithm.Decision{Err: c.err}, nil
		case c.lost && failed != nil:
			q.out[i], q.counters[i] = algorithm.Decision{Err: failed}, nil
		case c.lost:
			again = true
		case stands(&q.asks[i], &q.out[i]):
			q.counters[i] = nil
		}
	}
	return again
}

// stands reports whether a decision whose counter was written stays as it is while
// others of its request are decided anew: what is charged whatever becomes of the
// request, and what was charged since it passed, or since it was over. The others
// have changed nothing, and may pass yet.
func stands(a *algorithm.Ask, d *algorithm.Decision) bool {
	conditional := (a.Vetoes() || a.OneOfQuotas()) && !a.Limit.Overdraw
	return !conditional || d.After != d.Before || d.Outcome == algorithm.Denied && a.Counting == algorithm.OnlyOver
}

// read reads counters. Those that hold something else get an error each.
func (s *memcachedServer) read(x *session, counters []*counter) error {
	const most = 256 // keys of a call
	for from := 0; from < len(counters); from += most {
		if err := s.readSome(x, counters[from:min(from+most, len(counters))]); err != nil {
			return fmt.Errorf("%w: counters could not be read: %w", ErrUnavailable, err)
		}
	}
	return nil
}

// verdictOf is what failed writes say of the server: the first error, but for those
// that are about a counter.
func verdictOf(counters []*counter) error {
	for _, c := range counters {
		if c.err != nil && !errors.Is(c.err, errTooLarge) {
			return c.err
		}
	}
	return nil
}
