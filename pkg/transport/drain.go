package transport

import (
	"math/rand/v2"
	"time"

	"golang.org/x/net/http2"
)

// drainState says how far a connection is on its way to being closed without
// loss: running → asked → drained.
//
// A client may have opened streams that have not arrived when we decide to end
// the connection. So first GOAWAY names no stream as the last, and asks the
// client to open no more; the answer to the PING behind it says that the client
// has read that, and so that all its streams have arrived. Then GOAWAY names the
// last of them, and when they are answered the connection is closed.
type drainState uint8

const (
	running drainState = iota
	asked
	drained
)

// drainTimeout is how long to wait for the answer to that PING.
const drainTimeout = 5 * time.Second

// drainPing is its content.
var drainPing = [8]byte{'g', 'o', ' ', 'a', 'w', 'a', 'y', '?'}

// drain begins to end the connection.
func (c *conn) drain(why string) {
	if c.draining != running || c.failed || c.closed {
		return
	}
	c.drainSince = c.now
	if !c.settled { // its first calls may be on their way: after its SETTINGS
		c.drainEarly = true
		return
	}
	c.draining = asked
	c.out = appendGoAway(c.out, maxWindow, http2.ErrCodeNo, why)
	c.out = appendPing(c.out, 0, drainPing[:])
	c.server.metrics.goaway(http2.ErrCodeNo)
}

// settleTimeout is how long a connection that is to end is waited for that has
// sent nothing yet.
const settleTimeout = time.Second

// onPingAck handles the answer to a PING of ours.
func (c *conn) onPingAck(data []byte) {
	if c.draining == asked && string(data) == string(drainPing[:]) {
		c.lastCall()
	}
}

// lastCall says which stream is the last.
func (c *conn) lastCall() {
	if c.draining != asked || c.failed || c.closed {
		return
	}
	c.draining = drained
	c.out = appendGoAway(c.out, c.maxID, http2.ErrCodeNo, "")
}

// pushDrain begins to end the connection, in its own time.
func (c *conn) pushDrain() {
	c.mu.Lock()
	c.now = time.Now()
	c.drain("the server stops")
	c.mu.Unlock()
	c.push()
}

// jitter spreads the age of connections by a tenth, so that those that began
// together do not end together.
func jitter(age time.Duration) time.Duration {
	if age <= 0 {
		return 0
	}
	return age + time.Duration((2*rand.Float64()-1)*float64(age)/10)
}
