package transport

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const testMethod = "/test.Echo/Say"

// echo answers with the message, except for what it is asked to do:
//
//	status 5 text   answer with a status
//	sleep 10ms      take long
//	big 100000      answer with so many bytes
//	panic
type echo struct {
	mu      sync.Mutex
	batches []int // sizes
	tooBig  int
}

func (e *echo) Handle(ctx context.Context, batch []*Call) {
	e.mu.Lock()
	e.batches = append(e.batches, len(batch))
	e.mu.Unlock()
	for _, call := range batch {
		word, rest, _ := strings.Cut(string(call.Message), " ")
		switch word {
		case "status":
			code, text, _ := strings.Cut(rest, " ")
			n, _ := strconv.Atoi(code)
			call.Code, call.Status = uint32(n), text
		case "sleep":
			d, _ := time.ParseDuration(rest)
			select {
			case <-time.After(d):
			case <-ctx.Done():
			}
			call.Reply = append(call.Reply, "slept"...)
		case "big":
			n, _ := strconv.Atoi(rest)
			call.Reply = append(call.Reply, bytes.Repeat([]byte{'x'}, n)...)
		case "panic":
			panic("as asked")
		default:
			if call.TooLarge {
				call.Reply = append(call.Reply, "too large"...)
				e.mu.Lock()
				e.tooBig++
				e.mu.Unlock()
				continue
			}
			call.Reply = append(call.Reply, call.Message...)
		}
	}
}

// start serves on a loopback port until the test ends.
func start(t testing.TB, o Options) (*Server, string) {
	t.Helper()
	s := newServer(t, o)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(listener) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-done; !errors.Is(err, ErrStopped) {
			t.Errorf("Serve: %v", err)
		}
		if n := s.buffered.Load(); n != 0 {
			t.Errorf("%d bytes count as buffered after the end", n)
		}
	})
	return s, listener.Addr().String()
}

func newServer(t testing.TB, o Options) *Server {
	t.Helper()
	if o.Method == "" {
		o.Method = testMethod
	}
	if o.Handler == nil {
		o.Handler = &echo{}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// peer is a client that writes and reads frames.
type peer struct {
	t       testing.TB
	nc      net.Conn
	framer  *http2.Framer
	out     bytes.Buffer // written by framer, until flush
	encoder *hpack.Encoder
	block   bytes.Buffer
	decoder *hpack.Decoder
	fields  []string
	replies map[uint32]*reply
	frames  []string // what arrived, in short
	ping    [8]byte  // of the latest PING
	goaway  *http2.GoAwayFrame
	resets  map[uint32]http2.ErrCode
	gone    chan struct{} // closed by a test that reads in the background
}

// reply is what a stream brought.
type reply struct {
	headers, trailers []string
	data              []byte
	ended             bool
}

// message returns the gRPC message of a reply.
func (r *reply) message() string {
	if len(r.data) < 5 {
		return fmt.Sprintf("no message: %q", r.data)
	}
	if n := binary.BigEndian.Uint32(r.data[1:]); int(n) != len(r.data)-5 {
		return fmt.Sprintf("length %d of %d", n, len(r.data)-5)
	}
	return string(r.data[5:])
}

const patience = 10 * time.Second

// dial connects, and shakes hands with the given settings.
func dial(t testing.TB, addr string, settings ...http2.Setting) *peer {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	return newPeer(t, nc, settings...)
}

func newPeer(t testing.TB, nc net.Conn, settings ...http2.Setting) *peer {
	t.Helper()
	p := rawPeer(t, nc)
	p.out.WriteString(http2.ClientPreface)
	p.framer.WriteSettings(settings...)
	p.flush()
	p.until("SETTINGS ack", func() bool { return p.saw("SETTINGS ack") })
	p.framer.WriteSettingsAck()
	return p
}

// rawPeer is a peer that has said nothing.
func rawPeer(t testing.TB, nc net.Conn) *peer {
	t.Cleanup(func() { nc.Close() })
	p := &peer{t: t, nc: nc, replies: map[uint32]*reply{}, resets: map[uint32]http2.ErrCode{}, gone: make(chan struct{})}
	p.framer = http2.NewFramer(&p.out, nc)
	p.framer.AllowIllegalWrites = true
	p.framer.SetMaxReadFrameSize(1 << 20)
	p.encoder = newEncoder(p)
	p.decoder = hpack.NewDecoder(4096, func(f hpack.HeaderField) { p.fields = append(p.fields, f.Name+": "+f.Value) })
	return p
}

func newEncoder(p *peer) *hpack.Encoder { return hpack.NewEncoder(&p.block) }

func (p *peer) flush() {
	p.t.Helper()
	p.nc.SetWriteDeadline(time.Now().Add(patience))
	if _, err := p.nc.Write(p.out.Bytes()); err != nil {
		p.t.Fatalf("write: %v", err)
	}
	p.out.Reset()
}

// encode encodes "name: value" fields.
func (p *peer) encode(fields ...string) []byte {
	p.block.Reset()
	for _, field := range fields {
		i := strings.Index(field[1:], ": ") + 1
		p.encoder.WriteField(hpack.HeaderField{Name: field[:i], Value: field[i+2:]})
	}
	return bytes.Clone(p.block.Bytes())
}

// request headers as grpc clients send them.
func requestHeaders(more ...string) []string {
	return append([]string{":method: POST", ":scheme: http", ":path: " + testMethod, ":authority: test", "content-type: application/grpc", "te: trailers"}, more...)
}

func (p *peer) headers(id uint32, end bool, fields ...string) {
	p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: p.encode(fields...), EndHeaders: true, EndStream: end})
}

// framed returns messages with their prefixes.
func framed(messages ...string) []byte {
	var b []byte
	for _, m := range messages {
		b = append(binary.BigEndian.AppendUint32(append(b, 0), uint32(len(m))), m...)
	}
	return b
}

// ask sends a call.
func (p *peer) ask(id uint32, message string, more ...string) {
	p.headers(id, false, requestHeaders(more...)...)
	data := framed(message)
	for len(data) > maxFrame {
		p.framer.WriteData(id, false, data[:maxFrame])
		data = data[maxFrame:]
	}
	p.framer.WriteData(id, true, data)
}

// read takes in one frame.
func (p *peer) read() error {
	p.nc.SetReadDeadline(time.Now().Add(patience))
	return p.framedRead()
}

func (p *peer) framedRead() error {
	f, err := p.framer.ReadFrame()
	if err != nil {
		return err
	}
	h := f.Header()
	name := strings.TrimPrefix(fmt.Sprintf("%v", h.Type), "FRAME_")
	switch f := f.(type) {
	case *http2.SettingsFrame:
		if f.IsAck() {
			name += " ack"
		}
	case *http2.PingFrame:
		p.ping = f.Data
		if f.IsAck() {
			name += " ack"
		}
	case *http2.HeadersFrame:
		p.fields = nil
		if _, err := p.decoder.Write(f.HeaderBlockFragment()); err != nil {
			return err
		}
		p.decoder.Close()
		r := p.replyOf(h.StreamID)
		if r.headers == nil {
			r.headers = p.fields
		} else {
			r.trailers = p.fields
		}
		r.ended = f.StreamEnded()
		name += fmt.Sprint(" ", h.StreamID)
	case *http2.DataFrame:
		r := p.replyOf(h.StreamID)
		r.data = append(r.data, f.Data()...)
		r.ended = f.StreamEnded()
		name += fmt.Sprint(" ", h.StreamID, " ", len(f.Data()))
	case *http2.RSTStreamFrame:
		p.resets[h.StreamID] = f.ErrCode
		name += fmt.Sprint(" ", h.StreamID, " ", f.ErrCode)
	case *http2.GoAwayFrame:
		copied := *f
		p.goaway = &copied
		name += fmt.Sprint(" ", f.LastStreamID, " ", f.ErrCode)
	case *http2.WindowUpdateFrame:
		name += fmt.Sprint(" ", h.StreamID, " ", f.Increment)
	}
	p.frames = append(p.frames, name)
	return nil
}

func (p *peer) replyOf(id uint32) *reply {
	if p.replies[id] == nil {
		p.replies[id] = &reply{}
	}
	return p.replies[id]
}

// saw says whether a frame that begins so has arrived.
func (p *peer) saw(begin string) bool {
	for _, f := range p.frames {
		if strings.HasPrefix(f, begin) {
			return true
		}
	}
	return false
}

// until reads until something is so.
func (p *peer) until(what string, so func() bool) {
	p.t.Helper()
	for !so() {
		if err := p.read(); err != nil {
			p.t.Fatalf("waiting for %s: %v; saw %q", what, err, p.frames)
		}
	}
}

// reply waits for the reply on a stream.
func (p *peer) reply(id uint32) *reply {
	p.t.Helper()
	if p.out.Len() > 0 {
		p.flush()
	}
	p.until(fmt.Sprint("the reply on stream ", id), func() bool { return p.replies[id] != nil && p.replies[id].ended })
	return p.replies[id]
}

// says asks and checks the answer.
func (p *peer) says(id uint32, message, want string) {
	p.t.Helper()
	p.ask(id, message)
	if got := p.reply(id).message(); got != want {
		p.t.Fatalf("stream %d: got %.100q, want %.100q", id, got, want)
	}
}

// closed waits for the end of the connection.
func (p *peer) closed() {
	p.t.Helper()
	for {
		err := p.read()
		var timeout net.Error
		switch {
		case err == nil:
		case errors.As(err, &timeout) && timeout.Timeout():
			p.t.Fatalf("the connection was not closed; saw %q", p.frames)
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed), strings.Contains(err.Error(), "reset"), strings.Contains(err.Error(), "closed"), strings.Contains(err.Error(), "pipe"):
			return
		default:
			p.t.Fatalf("waiting for the connection to be closed: %v", err)
		}
	}
}

// fails waits for GOAWAY with a code, and the end of the connection.
func (p *peer) fails(code http2.ErrCode) {
	p.t.Helper()
	if p.out.Len() > 0 {
		p.nc.SetWriteDeadline(time.Now().Add(patience))
		p.nc.Write(p.out.Bytes()) // the server may not read all of it
		p.out.Reset()
	}
	p.until("GOAWAY", func() bool { return p.goaway != nil })
	if p.goaway.ErrCode != code {
		p.t.Fatalf("GOAWAY %v, want %v", p.goaway.ErrCode, code)
	}
	p.closed()
}

// wasReset waits for RST_STREAM with a code.
func (p *peer) wasReset(id uint32, code http2.ErrCode) {
	p.t.Helper()
	if p.out.Len() > 0 {
		p.flush()
	}
	p.until(fmt.Sprint("RST_STREAM ", id), func() bool { _, was := p.resets[id]; return was })
	if got := p.resets[id]; got != code {
		p.t.Fatalf("RST_STREAM %d %v, want %v", id, got, code)
	}
}
