package transport

import (
	"encoding/binary"

	"golang.org/x/net/http2"
)

// What a client may send before it hears from us. The windows are never closed,
// since what arrives is kept or thrown away at once; they are large, so that
// they seldom need a WINDOW_UPDATE.
const (
	streamWindow = 1 << 20
	connWindow   = 16 << 20
)

// takeIn counts DATA towards the connection's window, and gives back what is
// taken when it is half of it. It reports false if the client did not have so
// much.
func (c *conn) takeIn(n int64) bool {
	c.inWindow += n
	if c.inWindow > connWindow {
		return false
	}
	if c.inWindow >= connWindow/2 {
		c.out = appendWindowUpdate(c.out, 0, c.inWindow)
		c.inWindow = 0
	}
	return true
}

// giveBack gives back what is taken of a stream's window when it is half of it.
func (c *conn) giveBack(call *Call) {
	if call.taken >= streamWindow/2 {
		c.out = appendWindowUpdate(c.out, call.id, call.taken)
		call.taken = 0
	}
}

func (c *conn) onWindowUpdate(f *frame) {
	if len(f.payload) != 4 {
		c.fail(http2.ErrCodeFrameSize, "WINDOW_UPDATE that has not 4 bytes")
		return
	}
	c.annoy(1)
	increment := int64(binary.BigEndian.Uint32(f.payload) & maxWindow)
	if f.stream == 0 {
		c.widen(increment)
		return
	}
	if c.isIdle(f.stream) {
		c.fail(http2.ErrCodeProtocol, "WINDOW_UPDATE without a stream")
		return
	}
	call := c.find(f.stream)
	switch {
	case increment == 0:
		c.resetID(f.stream, http2.ErrCodeProtocol)
	case call == nil:
	case c.window(call)+increment > maxWindow:
		c.reset(call, http2.ErrCodeFlowControl)
	default:
		call.credit += increment
		c.resume(call)
	}
}

// widen adds to the client's window for the connection.
func (c *conn) widen(increment int64) {
	switch {
	case increment == 0:
		c.fail(http2.ErrCodeProtocol, "WINDOW_UPDATE of nothing")
		return
	case c.outWindow+increment > maxWindow:
		c.fail(http2.ErrCodeFlowControl, "WINDOW_UPDATE past 2^31-1")
		return
	}
	c.outWindow += increment
	for c.outWindow > 0 && len(c.waiting) > 0 {
		call := c.waiting[0]
		c.waiting = c.waiting[1:]
		call.waiting = false
		if call.gone {
			c.recycle(call)
		} else {
			c.sendRest(call)
		}
	}
	c.room.Broadcast()
}

// window returns how much the client takes on a stream; below 0 after it has
// made its windows smaller.
func (c *conn) window(call *Call) int64 { return c.initial + call.credit }

// resume goes on with a stream whose window may be open.
func (c *conn) resume(call *Call) {
	if len(call.rest) > 0 && !call.waiting {
		c.sendRest(call)
	}
	if call.other != nil {
		c.room.Broadcast()
	}
}

// setInitial sets the client's window for new streams, and with it that of
// streams that are open.
func (c *conn) setInitial(initial int64) {
	if initial == c.initial {
		return
	}
	c.initial = initial
	for _, call := range c.streams {
		if c.window(call) > maxWindow {
			c.fail(http2.ErrCodeFlowControl, "INITIAL_WINDOW_SIZE lets a window pass 2^31-1")
			return
		}
	}
	for _, call := range c.streams {
		c.resume(call)
	}
}
