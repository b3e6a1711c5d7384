package transport

import (
	"bytes"
	"encoding/binary"
	"net"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// Errors that concern the whole connection end it, with a code that says why.
func TestConnectionErrors(t *testing.T) {
	_, addr := start(t, Options{MaxHeaderList: 20000})
	setting := func(id http2.SettingID, value uint32) func(*peer) {
		return func(p *peer) { p.framer.WriteSettings(http2.Setting{ID: id, Val: value}) }
	}
	raw := func(kind http2.FrameType, flags http2.Flags, stream uint32, payload ...byte) func(*peer) {
		return func(p *peer) { p.framer.WriteRawFrame(kind, flags, stream, payload) }
	}
	tests := []struct {
		name string
		send func(*peer)
		code http2.ErrCode
	}{
		{"DATA on stream 0", raw(http2.FrameData, 0, 0, 1), http2.ErrCodeProtocol},
		{"DATA on an idle stream", raw(http2.FrameData, 0, 1, 1), http2.ErrCodeProtocol},
		{"DATA with too much padding", func(p *peer) {
			p.headers(1, false, requestHeaders()...)
			p.framer.WriteRawFrame(http2.FrameData, http2.FlagDataPadded, 1, []byte{2, 0})
		}, http2.ErrCodeProtocol},
		{"DATA with a padding that says nothing", func(p *peer) {
			p.headers(1, false, requestHeaders()...)
			p.framer.WriteRawFrame(http2.FrameData, http2.FlagDataPadded, 1, nil)
		}, http2.ErrCodeProtocol},
		{"HEADERS on stream 0", raw(http2.FrameHeaders, http2.FlagHeadersEndHeaders, 0, 0x82), http2.ErrCodeProtocol},
		{"HEADERS on an even stream", raw(http2.FrameHeaders, http2.FlagHeadersEndHeaders, 2, 0x82), http2.ErrCodeProtocol},
		{"HEADERS with half a priority", raw(http2.FrameHeaders, http2.FlagHeadersEndHeaders|http2.FlagHeadersPriority, 1, 0, 0), http2.ErrCodeFrameSize},
		{"HEADERS with a smaller number", func(p *peer) {
			p.says(5, "x", "x")
			p.headers(3, true, requestHeaders()...)
		}, http2.ErrCodeProtocol},
		{"HEADERS on a closed stream", func(p *peer) {
			p.says(1, "x", "x")
			p.headers(1, true, requestHeaders()...)
		}, http2.ErrCodeStreamClosed},
		{"a block that cannot be decoded", raw(http2.FrameHeaders, http2.FlagHeadersEndHeaders, 1, 0xff, 0xff, 0xff, 0xff), http2.ErrCodeCompression},
		{"an index that does not exist", raw(http2.FrameHeaders, http2.FlagHeadersEndHeaders, 1, 0x80|100), http2.ErrCodeCompression},
		{"a block cut short", raw(http2.FrameHeaders, http2.FlagHeadersEndHeaders, 1, 0x40, 5, 'a'), http2.ErrCodeCompression},
		{"CONTINUATION of nothing", raw(http2.FrameContinuation, http2.FlagContinuationEndHeaders, 1, 0x82), http2.ErrCodeProtocol},
		{"something between HEADERS and CONTINUATION", func(p *peer) {
			p.framer.WriteRawFrame(http2.FrameHeaders, 0, 1, []byte{0x82})
			p.framer.WritePing(false, [8]byte{})
		}, http2.ErrCodeProtocol},
		{"CONTINUATION of another stream", func(p *peer) {
			p.framer.WriteRawFrame(http2.FrameHeaders, 0, 1, []byte{0x82})
			p.framer.WriteContinuation(3, true, nil)
		}, http2.ErrCodeProtocol},
		{"CONTINUATION without end", func(p *peer) {
			p.framer.WriteRawFrame(http2.FrameHeaders, 0, 1, []byte{0x82})
			for range 20 {
				p.framer.WriteContinuation(1, false, bytes.Repeat([]byte{0x82}, 10000))
			}
		}, http2.ErrCodeEnhanceYourCalm},
		{"RST_STREAM on stream 0", raw(http2.FrameRSTStream, 0, 0, 0, 0, 0, 0), http2.ErrCodeProtocol},
		{"RST_STREAM on an idle stream", raw(http2.FrameRSTStream, 0, 1, 0, 0, 0, 0), http2.ErrCodeProtocol},
		{"RST_STREAM of a wrong length", func(p *peer) {
			p.headers(1, false, requestHeaders()...)
			p.framer.WriteRawFrame(http2.FrameRSTStream, 0, 1, []byte{0})
		}, http2.ErrCodeFrameSize},
		{"SETTINGS on a stream", raw(http2.FrameSettings, 0, 1), http2.ErrCodeProtocol},
		{"SETTINGS of a wrong length", raw(http2.FrameSettings, 0, 0, 1, 2, 3), http2.ErrCodeFrameSize},
		{"SETTINGS ack with something in it", raw(http2.FrameSettings, http2.FlagSettingsAck, 0, 0, 1, 0, 0, 0, 0), http2.ErrCodeFrameSize},
		{"ENABLE_PUSH 2", setting(http2.SettingEnablePush, 2), http2.ErrCodeProtocol},
		{"INITIAL_WINDOW_SIZE 2^31", setting(http2.SettingInitialWindowSize, 1<<31), http2.ErrCodeFlowControl},
		{"MAX_FRAME_SIZE too small", setting(http2.SettingMaxFrameSize, 1<<14-1), http2.ErrCodeProtocol},
		{"MAX_FRAME_SIZE too large", setting(http2.SettingMaxFrameSize, 1<<24), http2.ErrCodeProtocol},
		{"PING on a stream", raw(http2.FramePing, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8), http2.ErrCodeProtocol},
		{"PING of a wrong length", raw(http2.FramePing, 0, 0, 1), http2.ErrCodeFrameSize},
		{"GOAWAY on a stream", raw(http2.FrameGoAway, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0), http2.ErrCodeProtocol},
		{"GOAWAY of a wrong length", raw(http2.FrameGoAway, 0, 0, 0), http2.ErrCodeFrameSize},
		{"PRIORITY on stream 0", raw(http2.FramePriority, 0, 0, 0, 0, 0, 0, 0), http2.ErrCodeProtocol},
		{"PUSH_PROMISE", raw(http2.FramePushPromise, http2.FlagPushPromiseEndHeaders, 1, 0, 0, 0, 2), http2.ErrCodeProtocol},
		{"WINDOW_UPDATE of a wrong length", raw(http2.FrameWindowUpdate, 0, 0, 0), http2.ErrCodeFrameSize},
		{"WINDOW_UPDATE of nothing", raw(http2.FrameWindowUpdate, 0, 0, 0, 0, 0, 0), http2.ErrCodeProtocol},
		{"WINDOW_UPDATE of an idle stream", raw(http2.FrameWindowUpdate, 0, 1, 0, 0, 0, 1), http2.ErrCodeProtocol},
		{"WINDOW_UPDATE past the end", raw(http2.FrameWindowUpdate, 0, 0, 0x7f, 0xff, 0xff, 0xff), http2.ErrCodeFlowControl},
		{"a window that SETTINGS push past the end", func(p *peer) {
			p.headers(1, false, requestHeaders()...)
			p.framer.WriteWindowUpdate(1, 1<<31-1<<16)
			p.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 17})
		}, http2.ErrCodeFlowControl},
		{"a frame too large", raw(http2.FrameType(99), 0, 0, make([]byte, maxFrame+1)...), http2.ErrCodeFrameSize},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := dial(t, addr)
			test.send(p)
			p.fails(test.code)
		})
	}
}

// Errors that concern a stream end it, and leave the others alone.
func TestStreamErrors(t *testing.T) {
	_, addr := start(t, Options{})
	tests := []struct {
		name string
		send func(*peer)
		code http2.ErrCode
	}{
		{"DATA after the end", func(p *peer) {
			p.ask(1, "sleep 10ms")
			p.framer.WriteData(1, true, []byte("x"))
		}, http2.ErrCodeStreamClosed},
		{"DATA on a closed stream", func(p *peer) {
			p.says(1, "x", "x")
			p.framer.WriteData(1, true, []byte("x"))
		}, http2.ErrCodeStreamClosed},
		{"DATA after RST_STREAM", func(p *peer) {
			p.headers(1, false, requestHeaders()...)
			p.framer.WriteRSTStream(1, http2.ErrCodeCancel)
			p.framer.WriteData(1, true, []byte("x"))
		}, http2.ErrCodeStreamClosed},
		{"HEADERS after the end", func(p *peer) {
			p.ask(1, "sleep 10ms")
			p.headers(1, true, "some: trailer")
		}, http2.ErrCodeStreamClosed},
		{"HEADERS after RST_STREAM", func(p *peer) {
			p.headers(1, false, requestHeaders()...)
			p.framer.WriteRSTStream(1, http2.ErrCodeCancel)
			p.headers(1, true, requestHeaders()...)
		}, http2.ErrCodeStreamClosed},
		{"a second HEADERS without end", func(p *peer) {
			p.headers(1, false, requestHeaders()...)
			p.headers(1, false, "some: trailer")
		}, http2.ErrCodeProtocol},
		{"PRIORITY on itself", func(p *peer) {
			p.framer.WriteRawFrame(http2.FramePriority, 0, 1, []byte{0, 0, 0, 1, 0})
		}, http2.ErrCodeProtocol},
		{"PRIORITY of a wrong length", func(p *peer) {
			p.framer.WriteRawFrame(http2.FramePriority, 0, 1, []byte{0})
		}, http2.ErrCodeFrameSize},
		{"HEADERS that depend on themselves", func(p *peer) {
			p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: p.encode(requestHeaders("a: b")...), EndHeaders: true, Priority: http2.PriorityParam{StreamDep: 1}})
		}, http2.ErrCodeProtocol},
		{"WINDOW_UPDATE of nothing", func(p *peer) {
			p.headers(1, false, requestHeaders()...)
			p.framer.WriteRawFrame(http2.FrameWindowUpdate, 0, 1, []byte{0, 0, 0, 0})
		}, http2.ErrCodeProtocol},
		{"WINDOW_UPDATE past the end", func(p *peer) {
			p.headers(1, false, requestHeaders()...)
			p.framer.WriteWindowUpdate(1, maxWindow)
		}, http2.ErrCodeFlowControl},
		{"DATA past content-length", func(p *peer) {
			p.headers(1, false, requestHeaders("content-length: 3")...)
			p.framer.WriteData(1, false, []byte("xxxx"))
		}, http2.ErrCodeProtocol},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := dial(t, addr)
			test.send(p)
			p.wasReset(1, test.code)
			p.says(3, "a: b is in the table", "a: b is in the table")
			p.headers(5, false, requestHeaders("a: b")...) // an index, if the table has it
			p.framer.WriteData(5, true, framed("x"))
			if got := p.reply(5).message(); got != "x" {
				t.Errorf("got %q", got)
			}
		})
	}
}

// What the client does not know yet cannot be its fault.
func TestFramesThatCrossRST(t *testing.T) {
	_, addr := start(t, Options{})
	p := dial(t, addr)
	p.headers(1, false, with("te: gzip")...)
	p.framer.WriteData(1, false, []byte("x"))
	p.framer.WriteWindowUpdate(1, 1)
	p.framer.WriteRSTStream(1, http2.ErrCodeCancel)
	p.headers(1, true, "some: trailer")
	p.wasReset(1, http2.ErrCodeProtocol)
	p.says(3, "x", "x")
	n := 0
	for _, f := range p.frames {
		if f == "RST_STREAM 1 STREAM_CLOSED" {
			n++
		}
	}
	if n != 0 || p.goaway != nil {
		t.Errorf("saw %q", p.frames)
	}
}

func TestHarmlessFrames(t *testing.T) {
	_, addr := start(t, Options{})
	p := dial(t, addr)
	p.framer.WriteRawFrame(http2.FrameType(77), 0xff, 99, []byte("an extension"))
	p.framer.WritePriority(5, http2.PriorityParam{StreamDep: 3})
	p.framer.WritePing(true, [8]byte{1})
	p.framer.WritePing(false, [8]byte{2})
	p.framer.WriteSettings(http2.Setting{ID: 99, Val: 5}, http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 0})
	p.framer.WriteGoAway(0, http2.ErrCodeNo, []byte("no pushes, please"))
	p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: p.encode(requestHeaders()...), EndHeaders: true, PadLength: 9, Priority: http2.PriorityParam{StreamDep: 3, Weight: 1}})
	p.framer.WriteData(1, true, framed("x"))
	if got := p.reply(1).message(); got != "x" || !p.saw("PING ack") {
		t.Errorf("got %q, saw %q", got, p.frames)
	}
	block := p.encode(requestHeaders("a: b")...)
	p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 3, BlockFragment: block[:3]})
	for _, b := range block[3:] {
		p.framer.WriteContinuation(3, false, []byte{b})
	}
	p.framer.WriteContinuation(3, true, nil)
	p.framer.WriteData(3, true, framed("y"))
	if got := p.reply(3).message(); got != "y" {
		t.Errorf("got %q", got)
	}
	if p.goaway != nil {
		t.Error("GOAWAY")
	}
}

func TestPreface(t *testing.T) {
	_, addr := start(t, Options{})
	settings := string(appendSettings(nil))
	tests := []struct{ name, send string }{
		{"HTTP/1", "GET / HTTP/1.1\r\n\r\n"},
		{"nearly", http2.ClientPreface[:20] + "nope"},
		{"no SETTINGS", http2.ClientPreface + string(appendPing(nil, 0, make([]byte, 8)))},
		{"a SETTINGS ack", http2.ClientPreface + string(appendFrame(nil, 0, http2.FrameSettings, http2.FlagSettingsAck, 0))},
	}
	for _, test := range tests {
		nc, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		p := rawPeer(t, nc)
		p.out.WriteString(test.send)
		p.flush()
		p.closed()
	}
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	p := rawPeer(t, nc)
	for _, b := range []byte(http2.ClientPreface + settings) {
		p.out.WriteByte(b)
		p.flush()
	}
	p.says(1, "slow but sure", "slow but sure")
}

func TestMaxStreams(t *testing.T) {
	_, addr := start(t, Options{MaxStreams: 3})
	p := dial(t, addr)
	for id := uint32(1); id < 9; id += 2 {
		p.headers(id, false, requestHeaders()...)
	}
	p.wasReset(7, http2.ErrCodeRefusedStream)
	p.framer.WriteData(3, true, framed("x"))
	if got := p.reply(3).message(); got != "x" {
		t.Errorf("got %q", got)
	}
	p.says(9, "y", "y")
}

// The client's table may have any size, and change it.
func TestHeaderTableSize(t *testing.T) {
	_, addr := start(t, Options{})
	for _, sizes := range [][]uint32{{0}, {50}, {uint32(bothFit) - 1}, {uint32(bothFit)}, {4096, 0}, {0, 4096}, {200, 100}, {1 << 20}, {0, 1 << 20, 0, 300}, {31, 32, 4096}} {
		p := dial(t, addr)
		p.says(1, "fills the table", "fills the table")
		id := uint32(3)
		for _, size := range sizes {
			p.decoder.SetAllowedMaxDynamicTableSize(size)
			p.framer.WriteSettings(http2.Setting{ID: http2.SettingHeaderTableSize, Val: size})
			for range 3 {
				p.ask(id, "x")
				r := p.reply(id)
				if r.message() != "x" || len(r.headers) != 2 || r.headers[1] != "content-type: application/grpc" || len(r.trailers) != 1 || r.trailers[0] != "grpc-status: 0" {
					t.Fatalf("sizes %d: %+v", sizes, r)
				}
				id += 2
			}
		}
	}
}

// Integers as in RFC 7541, C.1, and all others as x/net reads them.
func TestAppendInt(t *testing.T) {
	for _, n := range []uint64{0, 1, 10, 14, 15, 16, 30, 31, 62, 63, 64, 126, 127, 128, 1337, 4096, 1 << 20} {
		block := appendString(appendInt(nil, 0x20, 5, min(n, 4096)), "x")[:0]
		block = appendInt(block, 0x20, 5, min(n, 4096))
		block = appendField(block, 0, "name", string(bytes.Repeat([]byte{'v'}, int(min(n, 5000)))))
		fields, err := hpack.NewDecoder(4096, nil).DecodeFull(block)
		if err != nil || len(fields) != 1 || len(fields[0].Value) != int(min(n, 5000)) {
			t.Errorf("%d: %v %v", n, fields, err)
		}
	}
	if got := appendInt(nil, 0, 5, 1337); !bytes.Equal(got, []byte{31, 154, 10}) {
		t.Errorf("1337: %d", got)
	}
}

func TestSplitFrame(t *testing.T) {
	b := appendFrame(nil, 3, http2.FrameData, 1, 7)
	b = append(b, "abc"...)
	for n := range b {
		if _, _, complete := splitFrame(b[:n]); complete {
			t.Errorf("complete with %d of %d bytes", n, len(b))
		}
	}
	b = append(b, "more"...)
	binary.BigEndian.PutUint32(b[5:], 1<<31|7) // a bit that is to be ignored
	if f, length, complete := splitFrame(b); !complete || length != 3 || f.stream != 7 || string(f.payload) != "abc" || f.flags != 1 {
		t.Errorf("got %+v %d %v", f, length, complete)
	}
}
