package transport

import (
	"golang.org/x/net/http2"
)

// closing is how a stream ended.
type closing uint8

const (
	unknown     closing = iota // never opened, or long ago
	clientReset                // by the client's RST_STREAM
	complete                   // both sides said all they had to say
	serverReset                // by our RST_STREAM, so that the client may not know yet
)

// closings remembers how the latest streams ended.
type closings struct {
	ids  [64]uint32
	hows [64]closing
	next int // where the oldest one is
}

func (c *closings) add(id uint32, how closing) {
	c.ids[c.next], c.hows[c.next] = id, how
	c.next = (c.next + 1) % len(c.ids)
}

func (c *closings) of(id uint32) closing {
	for i := range c.ids {
		j := (c.next + len(c.ids) - 1 - i) % len(c.ids) // a stream may be in it twice
		if c.ids[j] == id {
			return c.hows[j]
		}
	}
	return unknown
}

// find returns an open stream, or nil.
func (c *conn) find(id uint32) *Call {
	switch {
	case id > c.maxID: // spares every request a look at the map
		return nil
	case c.latest != nil && c.latest.id == id:
		return c.latest
	}
	return c.streams[id]
}

// isIdle says whether a stream has not been opened yet. Those with even numbers
// never are, since only we could open them.
func (c *conn) isIdle(id uint32) bool { return id%2 == 0 || id > c.maxID }

// drop takes a stream out of the open ones. What waits to be sent on it is not.
func (c *conn) drop(call *Call, how closing) {
	if call.gone {
		return
	}
	delete(c.streams, call.id)
	if c.latest == call {
		c.latest = nil
	}
	call.gone = true
	if how != complete {
		call.Gone.Store(true)
	}
	c.closings.add(call.id, how)
	c.unsent -= len(call.rest)
	call.rest = nil
	c.release(call)
	if call.other != nil {
		call.other.end()
	}
}

// recycle makes a dropped call available to other streams, unless somebody
// still has it: the owner of a batch, the queue of those that wait, or the
// goroutine that serves another method.
func (c *conn) recycle(call *Call) {
	if call.gone && !call.batched && !call.waiting && call.other == nil {
		c.free(call)
	}
}

func (c *conn) free(call *Call) {
	call.reset()
	c.server.calls.Put(call)
}

// reset ends a stream by RST_STREAM.
func (c *conn) reset(call *Call, code http2.ErrCode) {
	c.out = appendRST(c.out, call.id, code)
	c.drop(call, serverReset)
	c.recycle(call)
}

// resetID ends a stream that need not be open by RST_STREAM.
func (c *conn) resetID(id uint32, code http2.ErrCode) {
	if call := c.find(id); call != nil {
		c.reset(call, code)
		return
	}
	c.out = appendRST(c.out, id, code)
	c.closings.add(id, serverReset)
}
