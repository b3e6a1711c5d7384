package transport

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// load is a net.Conn whose client sends calls in batches, as a proxy does that
// has many requests to ask about, and takes whatever is answered.
type load struct {
	net.Conn

	prepared []byte // a batch
	streams  []int  // where stream numbers are in it
	next     uint32 // stream
	batch    int
	left     int // calls
	written  int
	opening  []byte
}

// newLoad prepares calls with the headers of Envoy, each with a message of a
// common size. traced calls have a header that is no index into a table.
func newLoad(calls, batch int, traced bool) *load {
	p := &peer{}
	l := &load{left: calls, batch: batch, next: 1}
	p.framer = http2.NewFramer(&p.out, nil)
	p.encoder = newEncoder(p)
	headers := requestHeaders("grpc-timeout: 20m", "x-envoy-internal: true", "x-forwarded-for: 10.0.0.7", "x-envoy-expected-rq-timeout-ms: 20")
	message := string(make([]byte, 60))
	p.out.Write(opening(window(1 << 20)))
	p.framer.WriteWindowUpdate(0, 1<<30)
	p.headers(1, false, headers...)
	p.framer.WriteData(1, true, framed(message))
	l.opening = append(l.opening, p.out.Bytes()...)
	p.out.Reset()
	for range batch {
		l.streams = append(l.streams, p.out.Len()+5)
		block := p.encode(headers...)
		if traced {
			p.block.Reset()
			p.encoder.WriteField(hpack.HeaderField{Name: "traceparent", Value: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", Sensitive: true})
			block = append(block, p.block.Bytes()...)
		}
		p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block, EndHeaders: true})
		l.streams = append(l.streams, p.out.Len()+5)
		p.framer.WriteData(1, true, framed(message))
	}
	l.prepared = p.out.Bytes()
	return l
}

func (l *load) Read(p []byte) (int, error) {
	if l.opening != nil {
		n := copy(p, l.opening)
		if l.opening = l.opening[n:]; len(l.opening) == 0 {
			l.opening = nil
		}
		return n, nil
	}
	if l.left <= 0 {
		return 0, io.EOF
	}
	if len(p) < len(l.prepared) {
		panic(fmt.Sprintf("%d bytes do not fit into %d", len(l.prepared), len(p)))
	}
	for i, at := range l.streams {
		if i%2 == 0 {
			l.next += 2
		}
		binary.BigEndian.PutUint32(l.prepared[at:], l.next)
	}
	l.left -= l.batch
	return copy(p, l.prepared), nil
}

func (l *load) Write(p []byte) (int, error) {
	l.written += len(p)
	return len(p), nil
}

func (l *load) Close() error { return nil }

// fixed answers every call with the same 40 bytes.
type fixed struct{}

func (fixed) Handle(_ context.Context, batch []*Call) {
	for _, call := range batch {
		call.Reply = append(call.Reply, "0123456789012345678901234567890123456789"...)
	}
}

// BenchmarkCalls is what a call costs but for reading and writing the socket,
// by how many arrive together, and whether their headers are all as before.
func BenchmarkCalls(b *testing.B) {
	for _, traced := range []bool{false, true} {
		for _, batch := range []int{1, 8, 64} {
			b.Run(fmt.Sprintf("traced=%v/batch=%d", traced, batch), func(b *testing.B) {
				s := newServer(b, Options{Handler: fixed{}, Inline: true})
				c := newConn(s, newLoad(b.N, batch, traced))
				c.in = make([]byte, largeBuffer)
				b.ReportAllocs()
				b.ResetTimer()
				c.loop()
			})
		}
	}
}

// BenchmarkConnections is what a connection costs, client included, that asks
// one question. What is left after them all is reported too; look at 100,000:
//
//	go test -run ^$ -bench Connections -benchtime 100000x ./pkg/transport
func BenchmarkConnections(b *testing.B) {
	s, addr := start(b, Options{Handler: fixed{}})
	var said, heard bytes.Buffer
	said.Write(opening())
	p := &peer{framer: http2.NewFramer(&said, nil)}
	p.encoder = newEncoder(p)
	p.ask(1, "x")
	before := measure()
	b.ReportAllocs()
	for b.Loop() {
		nc, err := net.Dial("tcp", addr)
		if err != nil {
			b.Fatal(err)
		}
		nc.Write(said.Bytes())
		heard.Reset()
		for !bytes.HasSuffix(heard.Bytes(), []byte("\x0b"+"grpc-status\x010")) {
			if _, err := heard.ReadFrom(io.LimitReader(nc, 1)); err != nil {
				b.Fatal(err)
			}
		}
		nc.(*net.TCPConn).SetLinger(0) // so that its port is free again at once
		nc.Close()
	}
	waitFor(b, "connections to be closed", func() bool { return s.connections() == 0 })
	after := measure()
	b.ReportMetric(float64(after.goroutines-before.goroutines), "goroutines-left")
	b.ReportMetric(float64(int64(after.heap-before.heap))/1024, "KiB-left")
}
