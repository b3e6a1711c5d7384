package transport

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// script is a net.Conn whose client says what it has to say, in given pieces,
// and then closes the connection. It keeps what is written.
type script struct {
	net.Conn

	pieces [][]byte
	out    bytes.Buffer
	closed bool
}

func (s *script) Read(p []byte) (int, error) {
	for len(s.pieces) > 0 && len(s.pieces[0]) == 0 {
		s.pieces = s.pieces[1:]
	}
	if len(s.pieces) == 0 || s.closed {
		return 0, io.EOF
	}
	n := copy(p, s.pieces[0])
	s.pieces[0] = s.pieces[0][n:]
	return n, nil
}

func (s *script) Write(p []byte) (int, error)     { return s.out.Write(p) }
func (s *script) Close() error                    { s.closed = true; return nil }
func (s *script) SetReadDeadline(time.Time) error { return nil }
func (s *script) LocalAddr() net.Addr             { return &net.TCPAddr{} }
func (s *script) RemoteAddr() net.Addr            { return &net.TCPAddr{} }

// play serves a connection on which the client says this, and returns it and
// what was answered.
func play(t testing.TB, o Options, pieces ...[]byte) (*conn, []byte) {
	t.Helper()
	o.Inline = true
	s := newServer(t, o)
	nc := &script{pieces: pieces}
	c := newConn(s, nc)
	s.conns[c] = struct{}{}
	c.loop()
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.others > 0 {
		c.mu.Unlock()
		time.Sleep(10 * time.Microsecond)
		c.mu.Lock()
	}
	if len(c.streams) > 0 || c.buffered != 0 || s.buffered.Load() != 0 || c.unsent != 0 || len(s.conns) > 0 {
		t.Errorf("%d streams, %d bytes buffered, %d unsent, %d connections are left", len(c.streams), c.buffered, c.unsent, len(s.conns))
	}
	return c, nc.out.Bytes()
}

// reads checks that a client can read what was written, and returns what it
// reads.
func reads(t testing.TB, out []byte) *peer {
	t.Helper()
	p := &peer{t: t, replies: map[uint32]*reply{}, resets: map[uint32]http2.ErrCode{}, nc: &script{}}
	p.framer = http2.NewFramer(nil, bytes.NewReader(out))
	p.framer.SetMaxReadFrameSize(maxFrame)
	p.decoder = hpack.NewDecoder(4096, func(f hpack.HeaderField) { p.fields = append(p.fields, f.Name+": "+f.Value) })
	for {
		switch err := p.read(); err {
		case nil:
		case io.EOF:
			return p
		default:
			t.Fatalf("the client cannot read this: %v\nafter %q\n%q", err, p.frames, out)
		}
	}
}

// drainBody reads a request and says how long it was.
func drainBody(w http.ResponseWriter, r *http.Request) {
	n, _ := io.Copy(io.Discard, r.Body)
	w.Header().Set("Trailer", "After")
	fmt.Fprintf(w, "%s %s %d", r.Method, r.URL, n)
	w.Header().Set("After", "x")
}

// quick answers at once, whatever it is asked.
type quick struct {
	untold *atomic.Int64 // answers that were not said to be sent; nil: nobody wants to know
}

func (q quick) Handle(_ context.Context, batch []*Call) {
	for _, call := range batch {
		if q.untold != nil {
			q.untold.Add(1)
			call.Sent = func() { q.untold.Add(-1) }
		}
		if bytes.HasPrefix(call.Message, []byte("no ")) {
			call.Code, call.Status = 14, string(call.Message[3:])
		} else {
			call.Reply = append(call.Reply, call.Message...)
		}
	}
}

// opening is how a client begins.
func opening(settings ...http2.Setting) []byte {
	return append([]byte(http2.ClientPreface), appendSettings(nil, settings...)...)
}

// Whatever a client sends, the server does not panic, comes to an end, keeps
// little, and answers with frames that a client can read.
func FuzzConnection(f *testing.F) {
	for _, seed := range seeds() {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		handler := quick{new(atomic.Int64)}
		mark := func(header func(string) string) any { return header("traceparent") }
		o := Options{Handler: handler, Mark: mark, Other: http.HandlerFunc(drainBody), MaxStreams: 50, MaxHeaderList: 2000, MaxBuffered: 5000, MaxMessage: 4000}
		for _, begin := range [][]byte{opening(), nil} {
			c, out := play(t, o, append(bytes.Clone(begin), data...))
			if c.greeted {
				reads(t, out)
			}
			if len(out) > 200+20*len(data)+mostPatience*20 {
				t.Errorf("%d bytes in, %d out", len(data), len(out))
			}
			if n := handler.untold.Load(); n != 0 {
				t.Errorf("of %d answers nobody said that they were sent", n)
			}
		}
	})
}

// seeds are beginnings of conversations of all kinds.
func seeds() [][]byte {
	var all [][]byte
	add := func(say func(p *peer)) {
		p := &peer{}
		p.framer = http2.NewFramer(&p.out, nil)
		p.framer.AllowIllegalWrites = true
		p.encoder = newEncoder(p)
		say(p)
		all = append(all, p.out.Bytes())
	}
	add(func(p *peer) {
		p.ask(1, "hello")
		p.ask(3, "no such thing", "grpc-timeout: 20m", "x-envoy-internal: true", "x-forwarded-for: 10.0.0.1")
		p.ask(5, strings.Repeat("x", 5000))
	})
	add(func(p *peer) {
		p.headers(1, false, requestHeaders()...)
		p.framer.WriteDataPadded(1, false, framed("hello")[:3], []byte{0, 0})
		p.framer.WriteWindowUpdate(1, 100)
		p.framer.WriteDataPadded(1, false, framed("hello")[3:], nil)
		p.headers(1, true, "some: trailer")
		p.framer.WritePing(false, [8]byte{1})
		p.framer.WriteRSTStream(1, http2.ErrCodeCancel)
	})
	add(func(p *peer) {
		block := p.encode(with(":path: /other", "content-length: 7")...)
		p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block[:5], Priority: http2.PriorityParam{StreamDep: 3, Weight: 9}})
		p.framer.WriteContinuation(1, false, block[5:9])
		p.framer.WriteContinuation(1, true, block[9:])
		p.framer.WriteData(1, true, []byte("content"))
		p.ask(3, "hello", "grpc-encoding: gzip")
	})
	add(func(p *peer) {
		p.framer.WriteSettings(window(3), http2.Setting{ID: http2.SettingHeaderTableSize, Val: 60})
		p.ask(1, "hello")
		p.ask(3, "hello")
		p.framer.WriteSettings(window(10), http2.Setting{ID: http2.SettingHeaderTableSize, Val: 4096})
		p.framer.WriteWindowUpdate(3, 10)
		p.framer.WritePriority(9, http2.PriorityParam{StreamDep: 1})
		p.framer.WriteGoAway(3, http2.ErrCodeNo, []byte("bye"))
		p.framer.WriteSettingsAck()
	})
	add(func(p *peer) { p.headers(1, true, with(":method: GET", "content-type:")...) })
	return all
}

// conversation turns data into calls that are as they should be, in frames of
// all kinds, and returns what to send and what the answers are.
func conversation(data []byte) (said []byte, want map[uint32]string) {
	p := &peer{}
	p.framer = http2.NewFramer(&p.out, nil)
	p.encoder = newEncoder(p)
	want = map[uint32]string{}
	next := func() (b byte) {
		if len(data) > 0 {
			b, data = data[0], data[1:]
		}
		return b
	}
	for id := uint32(1); len(data) > 0 && id < 200; id += 2 {
		var extra []string
		for range next() % 4 {
			extra = append(extra, fmt.Sprintf("h%d: %d", next()%8, next()))
		}
		block := p.encode(requestHeaders(extra...)...)
		first := min(int(next()), len(block))
		p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block[:first], EndHeaders: first == len(block), PadLength: next() % 3})
		for block = block[first:]; len(block) > 0; {
			n := min(1+int(next()), len(block))
			p.framer.WriteContinuation(id, n == len(block), block[:n])
			block = block[n:]
		}
		message := strings.Repeat("m", int(binary.BigEndian.Uint16([]byte{next() % 16, next()})))
		want[id] = message
		if next()%8 == 0 {
			message = "no " + message
		}
		if strings.HasPrefix(message, "no ") {
			want[id] = "14 " + message[3:min(len(message), 3+maxStatus-12)]
		}
		for body := framed(message); ; {
			n := min(int(next())*int(next()), len(body))
			end := n == len(body)
			trailers := end && next()%4 == 0
			p.framer.WriteDataPadded(id, end && !trailers, body[:n], make([]byte, next()%3))
			if trailers {
				p.headers(id, true, "some: trailer")
			}
			if body = body[n:]; len(body) == 0 {
				break
			}
			if len(data) == 0 {
				p.framer.WriteData(id, true, body)
				break
			}
		}
		switch next() % 6 {
		case 0:
			p.framer.WritePing(false, [8]byte{next()})
		case 1:
			p.framer.WriteWindowUpdate(0, 1+uint32(next()))
		case 2:
			p.framer.WriteRawFrame(http2.FrameType(80), 0, id, []byte{next()})
		}
	}
	return p.out.Bytes(), want
}

// However frames are cut and wherever what arrives is cut, the answers are the
// same.
func FuzzPieces(f *testing.F) {
	for i := range byte(10) {
		seed := make([]byte, 40*int(i))
		random := rand.NewChaCha8([32]byte{i})
		random.Read(seed)
		f.Add(seed, uint64(i))
	}
	f.Fuzz(func(t *testing.T, data []byte, cut uint64) {
		said, want := conversation(data)
		all := append(opening(window(1<<30)), appendWindowUpdate(nil, 0, 1<<30)...)
		all = append(all, said...)
		random := rand.New(rand.NewPCG(cut, 0))
		var pieces [][]byte
		for rest := all; len(rest) > 0; {
			n := min(1+random.IntN(1+random.IntN(1+random.IntN(5000))), len(rest))
			pieces = append(pieces, bytes.Clone(rest[:n]))
			rest = rest[n:]
		}
		for _, pieces := range [][][]byte{{bytes.Clone(all)}, pieces} {
			_, out := play(t, Options{Handler: quick{}}, pieces...)
			p := reads(t, out)
			got := map[uint32]string{}
			for id, r := range p.replies {
				if got[id] = r.message(); len(r.headers) == 4 {
					got[id] = strings.TrimPrefix(r.headers[2], "grpc-status: ") + " " + strings.TrimPrefix(r.headers[3], "grpc-message: ")
				} else if len(r.headers) == 3 {
					got[id] = strings.TrimPrefix(r.headers[2], "grpc-status: ") + " "
				}
			}
			if !maps.Equal(got, want) {
				for _, id := range slices.Sorted(maps.Keys(want)) {
					if got[id] != want[id] {
						t.Fatalf("stream %d: got %.100q, want %.100q; %q", id, got[id], want[id], p.frames)
					}
				}
				t.Fatalf("%d replies to %d calls", len(got), len(want))
			}
		}
	})
}
