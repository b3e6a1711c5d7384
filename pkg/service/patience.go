package service

import (
	"context"
	"sync/atomic"
	"time"
)

// patience is for how long the answer to a request is worth something.
type patience struct {
	until time.Time    // zero: for ever
	gone  *atomic.Bool // the caller has left before; nil: nobody would tell
}

// patience returns that of a request which is looked at now: the smaller of the
// budget and the caller's own time less a margin, both since it arrived.
func (o *Options) patience(e *Exchange, now time.Time) patience {
	p := patience{until: e.Deadline, gone: e.Gone}
	if o.Budget <= 0 {
		return p
	}
	arrived := e.Arrived
	if arrived.IsZero() {
		arrived = now
	}
	p.until = arrived.Add(o.Budget)
	if end := e.Deadline; !end.IsZero() {
		if end = end.Add(-margin(end.Sub(arrived))); end.Before(p.until) {
			p.until = end
		}
	}
	return p
}

// margin is the part of a caller's time that is kept for the answer's own way.
func margin(allowed time.Duration) time.Duration {
	return min(max(0, allowed)/5, 3*time.Millisecond)
}

// abandoned returns an error if the caller does not wait any more.
func (e *Exchange) abandoned(now time.Time) *Error {
	switch {
	case e.Gone != nil && e.Gone.Load():
		return left
	case !e.Deadline.IsZero() && !now.Before(e.Deadline):
		return late
	}
	return nil
}

// Arrival is what a server that serves calls by way of grpc knows about one. The
// zero value is that of a call which arrives when it is handled.
type Arrival struct {
	// At is when the request had arrived whole.
	At time.Time

	// Read is called when the message has been read and decompressed, before
	// anything is decided; nil: nobody wants to know.
	Read func()
}

// arrivalKey is the key of an [Arrival] in a context.
type arrivalKey struct{}

// WithArrival returns a context for a call of a server that has the service
// registered: see [Service.Register].
func WithArrival(ctx context.Context, a Arrival) context.Context {
	return context.WithValue(ctx, arrivalKey{}, a)
}
