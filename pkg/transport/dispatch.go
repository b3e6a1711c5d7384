package transport

import (
	"golang.org/x/net/http2"
)

// dispatch handles a frame.
func (c *conn) dispatch(f *frame) {
	switch {
	case c.blockHead.stream != 0 && (f.kind != http2.FrameContinuation || f.stream != c.blockHead.stream):
		c.fail(http2.ErrCodeProtocol, "a header block was not continued")
		return
	case !c.settled && (f.kind != http2.FrameSettings || f.flags.Has(http2.FlagSettingsAck)):
		c.fail(http2.ErrCodeProtocol, "SETTINGS must come first")
		return
	}
	switch f.kind {
	case http2.FrameData:
		c.onData(f)
	case http2.FrameHeaders:
		c.onHeaders(f)
	case http2.FrameContinuation:
		c.onContinuation(f)
	case http2.FrameRSTStream:
		c.onReset(f)
	case http2.FrameSettings:
		c.onSettings(f)
	case http2.FramePing:
		c.onPing(f)
	case http2.FrameWindowUpdate:
		c.onWindowUpdate(f)
	case http2.FrameGoAway:
		c.onGoAway(f)
	case http2.FramePriority:
		c.onPriority(f)
	case http2.FramePushPromise:
		c.fail(http2.ErrCodeProtocol, "a client must not push")
	default: // an extension
		c.annoy(1)
	}
}

func (c *conn) onPing(f *frame) {
	switch {
	case f.stream != 0:
		c.fail(http2.ErrCodeProtocol, "PING on a stream")
	case len(f.payload) != 8:
		c.fail(http2.ErrCodeFrameSize, "PING that has not 8 bytes")
	case !f.flags.Has(http2.FlagPingAck):
		c.annoy(1)
		c.out = appendPing(c.out, http2.FlagPingAck, f.payload)
	default:
		c.annoy(1)
		c.onPingAck(f.payload)
	}
}

func (c *conn) onPriority(f *frame) {
	switch {
	case f.stream == 0:
		c.fail(http2.ErrCodeProtocol, "PRIORITY without a stream")
	case len(f.payload) != 5:
		c.resetID(f.stream, http2.ErrCodeFrameSize)
	case priority(f.payload) == f.stream:
		c.resetID(f.stream, http2.ErrCodeProtocol)
	}
	c.annoy(1)
}

// onReset handles RST_STREAM. One that comes well before the call's deadline
// tries our patience; later ones are what a client does when it has waited in
// vain.
func (c *conn) onReset(f *frame) {
	switch {
	case f.stream == 0 || c.isIdle(f.stream):
		c.fail(http2.ErrCodeProtocol, "RST_STREAM without a stream")
		return
	case len(f.payload) != 4:
		c.fail(http2.ErrCodeFrameSize, "RST_STREAM that has not 4 bytes")
		return
	}
	call := c.find(f.stream)
	if call == nil || call.Deadline.IsZero() || call.Deadline.Sub(c.now) > call.allowed/2 {
		c.annoy(1)
	}
	if call != nil {
		c.drop(call, clientReset)
		c.recycle(call)
	}
}

// onGoAway handles GOAWAY, by which a client says that it will accept no pushes,
// which it would not get anyway.
func (c *conn) onGoAway(f *frame) {
	switch {
	case f.stream != 0:
		c.fail(http2.ErrCodeProtocol, "GOAWAY on a stream")
	case len(f.payload) < 8:
		c.fail(http2.ErrCodeFrameSize, "GOAWAY that has not 8 bytes")
	default:
		c.annoy(1)
	}
}
