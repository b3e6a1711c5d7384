package transport

import (
	"encoding/binary"

	"golang.org/x/net/http2"
)

// onData handles DATA.
func (c *conn) onData(f *frame) {
	size := len(f.payload)
	if f.stream == 0 || c.isIdle(f.stream) {
		c.fail(http2.ErrCodeProtocol, "DATA without a stream")
		return
	}
	if !c.takeIn(int64(size)) {
		c.fail(http2.ErrCodeFlowControl, "more DATA than the connection's window")
		return
	}
	if !f.unpad() {
		c.fail(http2.ErrCodeProtocol, "more padding than DATA")
		return
	}
	end := f.flags.Has(http2.FlagDataEndStream)
	call := c.find(f.stream)
	if call == nil {
		c.annoy(1)
		if c.closings.of(f.stream) != serverReset {
			c.resetID(f.stream, http2.ErrCodeStreamClosed)
		}
		return
	}
	if len(f.payload) == 0 && !end {
		c.annoy(1)
	}
	call.taken += int64(size)
	call.dataLength += int64(len(f.payload))
	switch {
	case call.ended:
		c.annoy(1)
		c.reset(call, http2.ErrCodeStreamClosed)
		return
	case call.taken > streamWindow:
		c.reset(call, http2.ErrCodeFlowControl)
		return
	case call.contentLength >= 0 && call.dataLength > call.contentLength:
		c.reset(call, http2.ErrCodeProtocol)
		return
	case call.other != nil:
		c.toOther(call, f.payload, size)
	case call.problem == nil:
		c.addMessage(call, f.payload, end)
	}
	if end {
		c.end(call)
	} else if call.other == nil {
		c.giveBack(call)
	}
}

// addMessage adds to the message of a call: its prefix of 5 bytes, which are a
// flag and the length, then the message itself. end says that nothing follows.
func (c *conn) addMessage(call *Call, b []byte, end bool) {
	if call.prefixed < len(call.prefix) {
		n := copy(call.prefix[call.prefixed:], b)
		b = b[n:]
		if call.prefixed += n; call.prefixed < len(call.prefix) {
			return
		}
		length := binary.BigEndian.Uint32(call.prefix[1:])
		call.TooLarge = int64(length) > int64(c.server.options.MaxMessage)
		call.length = int64(length)
		switch call.prefix[0] {
		case 0:
		case 1:
			call.problem = problemCompressed
		default:
			call.problem = badFlag(call.prefix[0])
		}
	}
	left := call.length + int64(len(call.prefix)) - call.dataLength
	switch {
	case call.problem != nil:
	case left < 0:
		call.problem = problemMessages
	case call.TooLarge:
	case !end || call.buffered > 0:
		c.keep(call, b)
	default: // all of it in one frame, or what makes an error
		call.Message = append(call.Message, b...)
	}
	if call.problem != nil {
		c.release(call)
	}
}

// keep keeps a part of a message, if there is room for it. What came in one
// frame does not count, since it is decided before more is read.
func (c *conn) keep(call *Call, b []byte) {
	n := len(b)
	most := int64(c.server.options.MaxBuffered)
	if c.buffered+int64(n) > most || c.server.buffered.Load()+int64(n) > 4*most {
		call.TooLarge = true
		c.release(call)
		return
	}
	call.Message = append(call.Message, b...)
	call.buffered += n
	c.buffered += int64(n)
	c.server.buffered.Add(int64(n))
}

// release lets go of the parts of a message that count as buffered.
func (c *conn) release(call *Call) {
	if call.buffered == 0 {
		return
	}
	c.buffered -= int64(call.buffered)
	c.server.buffered.Add(-int64(call.buffered))
	call.buffered = 0
	if !call.batched {
		call.Message = nil
	}
}

// end handles the end of a request: it is complete, or there is something wrong
// with it.
func (c *conn) end(call *Call) {
	call.ended = true
	switch {
	case call.contentLength >= 0 && call.dataLength != call.contentLength:
		c.reset(call, http2.ErrCodeProtocol)
		return
	case call.other != nil:
		call.other.finish()
		return
	case call.problem != nil:
	case call.prefixed == 0:
		call.problem = problemNoMessage
	case call.prefixed < len(call.prefix) || call.dataLength < call.length+int64(len(call.prefix)):
		call.problem = problemIncomplete
	}
	if call.problem != nil {
		c.annoy(1)
		c.server.metrics.rejected.Inc()
		c.refuse(call, call.problem)
		return
	}
	if call.TooLarge {
		c.server.metrics.tooLarge.Inc()
	}
	call.Arrived = c.now
	call.batched = true
	c.batch = append(c.batch, call)
}
