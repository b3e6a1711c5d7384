package transport

import (
	"encoding/binary"

	"golang.org/x/net/http2"
)

const (
	preface     = http2.ClientPreface
	frameHeader = 9       // bytes before a frame's payload
	maxFrame    = 1 << 14 // payload that we take; the default, so that it need not be announced
	maxWindow   = 1<<31 - 1
)

// frame is a frame as it arrived. payload is valid only while it is handled.
type frame struct {
	kind    http2.FrameType
	flags   http2.Flags
	stream  uint32
	payload []byte
}

// splitFrame splits the first frame off b. It returns a length above maxFrame
// as it is, and complete = false if b does not hold all of the frame.
func splitFrame(b []byte) (f frame, length int, complete bool) {
	if len(b) < frameHeader {
		return f, 0, false
	}
	length = int(b[0])<<16 | int(b[1])<<8 | int(b[2])
	if length > maxFrame || len(b) < frameHeader+length {
		return f, length, false
	}
	return frame{
		kind:    http2.FrameType(b[3]),
		flags:   http2.Flags(b[4]),
		stream:  binary.BigEndian.Uint32(b[5:]) & maxWindow,
		payload: b[frameHeader : frameHeader+length],
	}, length, true
}

// unpad takes padding off the payload of DATA and HEADERS, whose flag for it is
// the same. It reports false if there is more padding than payload.
func (f *frame) unpad() bool {
	if !f.flags.Has(http2.FlagDataPadded) {
		return true
	}
	if len(f.payload) == 0 || int(f.payload[0]) >= len(f.payload) {
		return false
	}
	f.payload = f.payload[1 : len(f.payload)-int(f.payload[0])]
	return true
}

func appendFrame(b []byte, length int, kind http2.FrameType, flags http2.Flags, stream uint32) []byte {
	return append(b, byte(length>>16), byte(length>>8), byte(length), byte(kind), byte(flags),
		byte(stream>>24), byte(stream>>16), byte(stream>>8), byte(stream))
}

func appendRST(b []byte, stream uint32, code http2.ErrCode) []byte {
	return binary.BigEndian.AppendUint32(appendFrame(b, 4, http2.FrameRSTStream, 0, stream), uint32(code))
}

func appendWindowUpdate(b []byte, stream uint32, increment int64) []byte {
	return binary.BigEndian.AppendUint32(appendFrame(b, 4, http2.FrameWindowUpdate, 0, stream), uint32(increment))
}

func appendGoAway(b []byte, last uint32, code http2.ErrCode, why string) []byte {
	b = appendFrame(b, 8+len(why), http2.FrameGoAway, 0, 0)
	b = binary.BigEndian.AppendUint32(b, last)
	b = binary.BigEndian.AppendUint32(b, uint32(code))
	return append(b, why...)
}

func appendPing(b []byte, flags http2.Flags, data []byte) []byte {
	return append(appendFrame(b, 8, http2.FramePing, flags, 0), data...)
}

func appendSettings(b []byte, settings ...http2.Setting) []byte {
	b = appendFrame(b, 6*len(settings), http2.FrameSettings, 0, 0)
	for _, s := range settings {
		b = binary.BigEndian.AppendUint16(b, uint16(s.ID))
		b = binary.BigEndian.AppendUint32(b, s.Val)
	}
	return b
}
