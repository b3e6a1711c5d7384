package transport

import (
	"bytes"
	"encoding/binary"
	"strconv"

	"golang.org/x/net/http2"
)

// answer appends the reply to a call that the handler has answered, or what of
// it the client takes.
func (c *conn) answer(call *Call) {
	call.batched = false
	switch {
	case call.gone:
		c.recycle(call)
		return
	case call.problem != nil:
		c.refuse(call, call.problem)
		return
	case call.Code != 0:
		c.refuse(call, &problem{http: 200, code: call.Code, message: call.Status})
		return
	}
	length := len(call.prefix) + len(call.Reply)
	c.headers(call.id, 0, func(b []byte) []byte { return c.table.headers(b, call.subtype) })
	if n := int64(length); n <= maxFrame && n <= c.outWindow && n <= c.window(call) && len(c.waiting) == 0 {
		c.outWindow -= n
		c.out = appendFrame(c.out, length, http2.FrameData, 0, call.id)
		c.out = binary.BigEndian.AppendUint32(append(c.out, 0), uint32(len(call.Reply)))
		c.out = append(c.out, call.Reply...)
		c.finish(call)
		return
	}
	rest := make([]byte, 0, length)
	rest = binary.BigEndian.AppendUint32(append(rest, 0), uint32(len(call.Reply)))
	c.send(call, append(rest, call.Reply...))
}

// headers appends a HEADERS frame with the block that fill appends.
func (c *conn) headers(id uint32, flags http2.Flags, fill func([]byte) []byte) {
	start := len(c.out)
	c.out = fill(appendFrame(c.out, 0, http2.FrameHeaders, flags|http2.FlagHeadersEndHeaders, id))
	length := len(c.out) - start - frameHeader
	if length > maxFrame {
		c.split(start, id)
		return
	}
	c.out[start+1], c.out[start+2] = byte(length>>8), byte(length)
}

// split splits a HEADERS frame that is too long, and begins at start, into one
// and CONTINUATION frames.
func (c *conn) split(start int, id uint32) {
	block := bytes.Clone(c.out[start+frameHeader:])
	kind, flags := http2.FrameHeaders, http2.Flags(c.out[start+4])&^http2.FlagHeadersEndHeaders
	c.out = c.out[:start]
	for len(block) > 0 {
		n := min(len(block), maxFrame)
		if n == len(block) {
			flags |= http2.FlagHeadersEndHeaders
		}
		c.out = append(appendFrame(c.out, n, kind, flags, id), block[:n]...)
		block, kind, flags = block[n:], http2.FrameContinuation, 0
	}
}

// finish ends a reply that is no error.
func (c *conn) finish(call *Call) {
	c.headers(call.id, http2.FlagHeadersEndStream, c.table.trailers)
	c.done(call)
}

// done is called when all of a reply is in out. A client that has not ended its
// request is told that nobody will listen to the rest.
func (c *conn) done(call *Call) {
	how := complete
	if !call.ended {
		how = serverReset
		c.out = appendRST(c.out, call.id, http2.ErrCodeNo)
	}
	c.drop(call, how)
	c.recycle(call)
}

// refuse answers a call with an error: headers that are trailers, or text for a
// client that does not speak gRPC.
func (c *conn) refuse(call *Call, p *problem) {
	if p.plain {
		c.headers(call.id, 0, func(b []byte) []byte {
			b = appendStatus(c.table.begin(b), p.http)
			return appendField(b, contentTypeIndex, "", "text/plain; charset=utf-8")
		})
		call.plain = true
		c.send(call, []byte(p.message+"\n"))
		return
	}
	c.headers(call.id, http2.FlagHeadersEndStream, func(b []byte) []byte {
		b = appendStatus(c.table.begin(b), p.http)
		b = appendField(b, contentTypeIndex, "", grpcType+call.subtype)
		b = appendField(b, 0, "grpc-status", strconv.FormatUint(uint64(p.code), 10))
		if p.message != "" {
			b = appendField(b, 0, "grpc-message", string(appendMessage(nil, p.message)))
		}
		if p.identity {
			b = appendField(b, 0, "grpc-accept-encoding", "identity")
		}
		return b
	})
	c.done(call)
}

// send sends b after the headers of a stream, as far as the client takes it.
func (c *conn) send(call *Call, b []byte) {
	call.rest = b
	c.unsent += len(b)
	c.sendRest(call)
}

// sendRest sends what is left of a reply, as far as the client takes it. A
// stream whose own window is closed waits for that, others queue for the
// connection's.
func (c *conn) sendRest(call *Call) {
	for len(call.rest) > 0 {
		n := min(int64(len(call.rest)), maxFrame, c.window(call))
		if n <= 0 {
			return
		}
		if c.outWindow <= 0 {
			c.queue(call)
			return
		}
		n = min(n, c.outWindow)
		var flags http2.Flags
		if call.plain && int(n) == len(call.rest) {
			flags = http2.FlagDataEndStream
		}
		c.out = appendFrame(c.out, int(n), http2.FrameData, flags, call.id)
		c.out = append(c.out, call.rest[:n]...)
		c.outWindow -= n
		call.credit -= n
		call.rest = call.rest[n:]
		c.unsent -= int(n)
	}
	call.rest = nil
	if call.plain {
		c.done(call)
	} else {
		c.finish(call)
	}
}

// queue has a stream wait for the connection's window. Streams that were dropped
// meanwhile are taken out when there are many of them.
func (c *conn) queue(call *Call) {
	if len(c.waiting) > 2*len(c.streams)+64 {
		kept := c.waiting[:0:0]
		for _, other := range c.waiting {
			if other.waiting = !other.gone; other.waiting {
				kept = append(kept, other)
			} else {
				c.recycle(other)
			}
		}
		c.waiting = kept
	}
	call.waiting = true
	c.waiting = append(c.waiting, call)
}
