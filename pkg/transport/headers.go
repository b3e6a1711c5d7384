package transport

import (
	"bytes"
	"encoding/binary"
	"strings"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// priority returns the stream that the first bytes of a priority depend on.
func priority(b []byte) uint32 { return binary.BigEndian.Uint32(b) & maxWindow }

func (c *conn) onHeaders(f *frame) {
	if f.stream == 0 {
		c.fail(http2.ErrCodeProtocol, "HEADERS without a stream")
		return
	}
	if !f.unpad() {
		c.fail(http2.ErrCodeProtocol, "more padding than HEADERS")
		return
	}
	itself := false
	if f.flags.Has(http2.FlagHeadersPriority) {
		if len(f.payload) < 5 {
			c.fail(http2.ErrCodeFrameSize, "HEADERS too short for a priority")
			return
		}
		itself = priority(f.payload) == f.stream
		f.payload = f.payload[5:]
	}
	if itself {
		// A stream error, but the block must be decoded all the same.
		f.flags |= flagItself
	}
	if !f.flags.Has(http2.FlagHeadersEndHeaders) {
		c.annoy(1)
		c.block = append(c.block[:0], f.payload...)
		c.blockHead = *f
		c.blockHead.payload = nil
		return
	}
	c.onBlock(f, f.payload)
}

// flagItself is a flag of our own for HEADERS whose stream depends on itself. It
// is none that HEADERS has.
const flagItself http2.Flags = 0x80

func (c *conn) onContinuation(f *frame) {
	if c.blockHead.stream == 0 {
		c.fail(http2.ErrCodeProtocol, "CONTINUATION of nothing")
		return
	}
	c.annoy(1)
	if len(c.block)+len(f.payload) > c.server.options.MaxHeaderList+maxFrame {
		c.fail(http2.ErrCodeEnhanceYourCalm, "headers too large")
		return
	}
	c.block = append(c.block, f.payload...)
	if !f.flags.Has(http2.FlagContinuationEndHeaders) {
		return
	}
	head := c.blockHead
	c.blockHead = frame{}
	c.onBlock(&head, c.block)
	if cap(c.block) > maxFrame {
		c.block = nil
	}
}

// onBlock handles a complete header block.
func (c *conn) onBlock(f *frame, block []byte) {
	h := &c.same
	if len(c.sameBlock) == 0 || !bytes.Equal(block, c.sameBlock) {
		var ok bool
		if h, ok = c.decode(block); !ok {
			c.fail(http2.ErrCodeCompression, "a header block that cannot be decoded")
			return
		}
	}
	end := f.flags.Has(http2.FlagHeadersEndStream)
	if call := c.find(f.stream); call != nil {
		c.onTrailers(call, h, end)
		return
	}
	if !c.isIdle(f.stream) {
		c.onLateHeaders(f.stream)
		return
	}
	if f.stream%2 == 0 {
		c.fail(http2.ErrCodeProtocol, "a stream with an even number")
		return
	}
	c.maxID = f.stream
	switch {
	case c.draining == drained: // after the last stream that GOAWAY named
		c.closings.add(f.stream, serverReset)
	case f.flags.Has(flagItself) || h.malformed:
		c.annoy(1)
		c.resetID(f.stream, http2.ErrCodeProtocol)
	case len(c.streams) >= c.server.options.MaxStreams || h.other && (c.others >= maxOther || c.server.others.Load() >= maxOthers):
		c.annoy(1)
		c.server.metrics.refused.Inc()
		c.resetID(f.stream, http2.ErrCodeRefusedStream)
	default:
		c.open(f.stream, h, end)
	}
}

// decode decodes a block and reports whether that was possible.
func (c *conn) decode(block []byte) (*head, bool) {
	c.fields, c.listSize, c.sameBlock = c.fields[:0], 0, c.sameBlock[:0]
	_, err := c.decoder.Write(block)
	if err == nil {
		err = c.decoder.Close()
	}
	c.same = parseHead(c.fields, c.server.options.Method, c.server.options.Other != nil)
	if c.listSize > c.server.options.MaxHeaderList {
		c.same.tooLarge()
		c.annoy(int64(c.listSize) / 4096) // a block can be much smaller than what it says
	}
	if mark := c.server.options.Mark; mark != nil {
		c.same.mark = mark(c.header)
	}
	if isStable(block) {
		c.sameBlock = append(c.sameBlock, block...)
	}
	return &c.same, err == nil
}

// field returns the value of a header in the last block; several are one list.
func (c *conn) field(name string) string {
	for i := range c.fields {
		if c.fields[i].Name == name {
			return joined(c.fields[i:], name)
		}
	}
	return ""
}

// joined joins the values of a header that the first of the fields has, and does
// not allocate if no other has it.
func joined(fields []hpack.HeaderField, name string) string {
	var values []string
	for i := range fields[1:] {
		if f := &fields[1+i]; f.Name == name {
			values = append(values, f.Value)
		}
	}
	if values == nil {
		return fields[0].Value
	}
	return fields[0].Value + "," + strings.Join(values, ",")
}

// isStable says whether a block leaves the dynamic table as it is, so that the
// same block means the same until another one is decoded. That is so for one
// that has only indexed fields, of one byte each.
func isStable(block []byte) bool {
	for _, b := range block {
		if b <= 0x80 || b == 0xff {
			return false
		}
	}
	return true
}

// emit takes in a field. Those past the limit are only counted.
func (c *conn) emit(field hpack.HeaderField) {
	if c.listSize += int(field.Size()); c.listSize <= c.server.options.MaxHeaderList {
		c.fields = append(c.fields, field)
	}
}

// onTrailers handles a header block on a stream that is open: it ends a request.
func (c *conn) onTrailers(call *Call, h *head, end bool) {
	switch {
	case call.ended:
		c.annoy(1)
		c.reset(call, http2.ErrCodeStreamClosed)
	case !end || h.malformedTrailers:
		c.annoy(1)
		c.reset(call, http2.ErrCodeProtocol)
	default:
		c.end(call)
	}
}

// onLateHeaders handles a header block for a stream that is not open any more.
func (c *conn) onLateHeaders(id uint32) {
	c.annoy(1)
	switch c.closings.of(id) {
	case serverReset:
	case clientReset:
		c.resetID(id, http2.ErrCodeStreamClosed)
	case complete:
		c.fail(http2.ErrCodeStreamClosed, "HEADERS for a stream that is closed")
	default:
		c.fail(http2.ErrCodeProtocol, "a stream with a smaller number than the one before")
	}
}

// open opens a stream.
func (c *conn) open(id uint32, h *head, end bool) {
	call := c.server.calls.Get().(*Call)
	call.id = id
	call.problem = h.problem
	call.Mark = h.mark
	call.subtype = h.subtype
	call.contentLength = h.contentLength
	call.opened = c.now
	if h.hasTimeout {
		call.allowed = h.timeout
		call.Deadline = c.now.Add(h.timeout)
	}
	c.streams[id] = call
	c.latest = call
	if h.other && h.problem == nil {
		c.openOther(call, h)
	}
	if end {
		c.end(call)
	}
}
