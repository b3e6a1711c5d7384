package transport

import (
	"context"
	"sync/atomic"
	"time"
)

// Handler answers calls.
type Handler interface {
	// Handle answers the calls of a batch, which arrived together on one
	// connection: it sets Reply, or Code and Status, of each. ctx ends with the
	// connection. Handle is called concurrently, for several connections and,
	// when it is slow, for one. It keeps nothing of the calls after it has
	// returned. After a panic all calls of the batch are answered INTERNAL.
	Handle(ctx context.Context, batch []*Call)
}

// Call is a request and its reply.
type Call struct {
	// Message is the request message. It is valid until Handle returns.
	Message []byte

	// TooLarge means that the message was longer than may be kept and that
	// Message is empty. It is for the handler to say what that means, since a
	// proxy may take an error for a yes.
	TooLarge bool

	// Arrived is when all of the request was read.
	Arrived time.Time

	// Deadline is when the client stops waiting; zero if it did not say.
	Deadline time.Time

	// Gone is set when the client has reset the stream or closed the
	// connection. Who reads it after Handle has returned, when the call may be
	// another's, may find it set or not.
	Gone *atomic.Bool

	// Mark is what [Options.Mark] makes of the headers.
	Mark any

	// Reply is where the handler appends the reply message. It is empty, and
	// may have room.
	Reply []byte

	// Code and Status are the gRPC status; the zero values mean OK. Reply is
	// not sent with any other.
	Code   uint32
	Status string

	// Sent, if the handler sets it, is called once: when the reply has been
	// written as far as the client takes it, or is given up. It must not wait.
	Sent func()

	stream // what the connection knows
}

// stream is the state of the stream that a call came on. It is guarded by the
// connection's mu.
type stream struct {
	id       uint32
	ended    bool // the client has sent all of its request
	gone     bool // not in conn.streams any more: reset, answered, or the connection is closed
	batched  bool // in a batch, whose owner recycles it
	waiting  bool // in conn.waiting
	prefix   [5]byte
	prefixed int    // bytes of prefix that have arrived
	length   int64  // of the message, when prefixed == 5
	buffered int    // of Message that count as buffered
	subtype  string // what the client's content-type adds to application/grpc, with its + or ;

	problem *problem  // what is wrong with the request; nil: nothing
	other   *exchange // serves the stream if it is for another method

	contentLength int64 // that the client announced; -1: none
	dataLength    int64 // of DATA, without padding

	taken   int64         // bytes of our window that are not given back
	credit  int64         // the client's window is conn.initialWindow + credit
	rest    []byte        // of the reply that waits for the client's window; not empty while it does
	plain   bool          // no trailers follow rest
	allowed time.Duration // grpc-timeout; 0: none
	opened  time.Time     // when its headers arrived
}

// reset makes a call ready for another stream, and keeps its buffers if they
// are of ordinary size.
func (c *Call) reset() {
	const ordinary = 4 << 10
	message, reply := c.Message[:0], c.Reply[:0]
	if cap(message) > ordinary {
		message = nil
	}
	if cap(reply) > ordinary {
		reply = nil
	}
	if c.Gone.Load() {
		c.Gone.Store(false)
	}
	*c = Call{Message: message, Reply: reply, Gone: c.Gone}
}
