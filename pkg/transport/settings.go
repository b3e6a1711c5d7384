package transport

import (
	"encoding/binary"

	"golang.org/x/net/http2"
)

// onSettings handles SETTINGS. Of a setting that stands in the frame several
// times the last one counts, and only that is applied.
func (c *conn) onSettings(f *frame) {
	ack := f.flags.Has(http2.FlagSettingsAck)
	switch {
	case f.stream != 0:
		c.fail(http2.ErrCodeProtocol, "SETTINGS on a stream")
		return
	case ack && len(f.payload) != 0, len(f.payload)%6 != 0:
		c.fail(http2.ErrCodeFrameSize, "SETTINGS of a wrong length")
		return
	}
	if c.settled {
		c.annoy(1 + int64(len(f.payload)+len(c.streams))/64)
	}
	if ack {
		return
	}
	c.settled = true
	initial := c.initial
	for b := f.payload; len(b) > 0; b = b[6:] {
		value := binary.BigEndian.Uint32(b[2:])
		switch http2.SettingID(binary.BigEndian.Uint16(b)) {
		case http2.SettingHeaderTableSize:
			c.table.resize(value)
		case http2.SettingEnablePush:
			if value > 1 {
				c.fail(http2.ErrCodeProtocol, "ENABLE_PUSH is neither 0 nor 1")
				return
			}
		case http2.SettingInitialWindowSize:
			if value > maxWindow {
				c.fail(http2.ErrCodeFlowControl, "INITIAL_WINDOW_SIZE above 2^31-1")
				return
			}
			initial = int64(value)
		case http2.SettingMaxFrameSize:
			// Ours need no more than the least that it can be.
			if value < maxFrame || value > 1<<24-1 {
				c.fail(http2.ErrCodeProtocol, "MAX_FRAME_SIZE not within 2^14 and 2^24-1")
				return
			}
		}
	}
	c.out = appendFrame(c.out, 0, http2.FrameSettings, http2.FlagSettingsAck, 0)
	c.setInitial(initial)
	if c.drainEarly {
		c.drain("the server stops")
	}
}
