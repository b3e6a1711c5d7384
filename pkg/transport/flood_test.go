package transport

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// A flood of anything ends the connection, and takes no memory meanwhile.
func TestFloods(t *testing.T) {
	tests := []struct {
		name string
		send func(p *peer, i uint32)
		code http2.ErrCode
	}{
		{"PING", func(p *peer, i uint32) { p.framer.WritePing(false, [8]byte{}) }, http2.ErrCodeEnhanceYourCalm},
		{"PING ack", func(p *peer, i uint32) { p.framer.WritePing(true, [8]byte{}) }, http2.ErrCodeEnhanceYourCalm},
		{"SETTINGS", func(p *peer, i uint32) { p.framer.WriteSettings() }, http2.ErrCodeEnhanceYourCalm},
		{"SETTINGS ack", func(p *peer, i uint32) { p.framer.WriteSettingsAck() }, http2.ErrCodeEnhanceYourCalm},
		{"INITIAL_WINDOW_SIZE", func(p *peer, i uint32) { p.framer.WriteSettings(window(i)) }, http2.ErrCodeEnhanceYourCalm},
		{"PRIORITY", func(p *peer, i uint32) {
			p.framer.WritePriority(1+2*i, http2.PriorityParam{StreamDep: 3 + 2*i})
		}, http2.ErrCodeEnhanceYourCalm},
		{"WINDOW_UPDATE of 1", func(p *peer, i uint32) { p.framer.WriteWindowUpdate(0, 1) }, http2.ErrCodeEnhanceYourCalm},
		{"WINDOW_UPDATE of 0 on streams", func(p *peer, i uint32) {
			p.headers(1+2*i, false, requestHeaders()...)
			p.framer.WriteRawFrame(http2.FrameWindowUpdate, 0, 1+2*i, []byte{0, 0, 0, 0})
		}, http2.ErrCodeEnhanceYourCalm},
		{"extensions", func(p *peer, i uint32) { p.framer.WriteRawFrame(http2.FrameType(99), 0, 0, nil) }, http2.ErrCodeEnhanceYourCalm},
		{"GOAWAY", func(p *peer, i uint32) { p.framer.WriteGoAway(0, 0, nil) }, http2.ErrCodeEnhanceYourCalm},
		{"rapid reset", func(p *peer, i uint32) {
			p.headers(1+2*i, true, requestHeaders()...)
			p.framer.WriteRSTStream(1+2*i, http2.ErrCodeCancel)
		}, http2.ErrCodeEnhanceYourCalm},
		{"rapid reset of whole calls", func(p *peer, i uint32) {
			p.ask(1+2*i, "x")
			p.framer.WriteRSTStream(1+2*i, http2.ErrCodeCancel)
		}, http2.ErrCodeEnhanceYourCalm},
		{"resets that we are made to send", func(p *peer, i uint32) { p.headers(1+2*i, true, with("te: gzip")...) }, http2.ErrCodeEnhanceYourCalm},
		{"calls without a message", func(p *peer, i uint32) { p.headers(1+2*i, true, requestHeaders()...) }, http2.ErrCodeEnhanceYourCalm},
		{"streams past the limit", func(p *peer, i uint32) { p.headers(1+2*i, false, requestHeaders()...) }, http2.ErrCodeEnhanceYourCalm},
		{"DATA on closed streams", func(p *peer, i uint32) {
			if i == 0 {
				p.headers(1, false, requestHeaders()...)
				p.framer.WriteRSTStream(1, http2.ErrCodeCancel)
			}
			p.framer.WriteData(1, false, nil)
		}, http2.ErrCodeEnhanceYourCalm},
		{"empty DATA", func(p *peer, i uint32) {
			if i == 0 {
				p.headers(1, false, requestHeaders()...)
			}
			p.framer.WriteData(1, false, nil)
		}, http2.ErrCodeEnhanceYourCalm},
		{"padding", func(p *peer, i uint32) {
			if i == 0 {
				p.headers(1, false, requestHeaders()...)
			}
			p.framer.WriteDataPadded(1, false, nil, make([]byte, 255))
		}, http2.ErrCodeEnhanceYourCalm},
		{"headers that say much more than they are long", func(p *peer, i uint32) {
			block := p.encode(requestHeaders("big: " + strings.Repeat("x", 3900))...)
			p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1 + 2*i, EndStream: true, EndHeaders: true, BlockFragment: append(block, bytes.Repeat([]byte{0x80 | 62}, 12000)...)})
		}, http2.ErrCodeEnhanceYourCalm},
		{"empty CONTINUATION", func(p *peer, i uint32) {
			if i == 0 {
				p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x82}})
			}
			p.framer.WriteContinuation(1, false, nil)
		}, http2.ErrCodeEnhanceYourCalm},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s, addr := start(t, Options{MaxStreams: 2000})
			p := dial(t, addr)
			c := s.only(t)
			go func() { // reads, so that it is no slow reader
				for p.goaway == nil && p.read() == nil {
				}
				p.closed()
				close(p.gone)
			}()
			sent := uint32(0)
			for ; sent < 30*mostPatience; sent++ {
				test.send(p, sent)
				if p.out.Len() < 60000 {
					continue
				}
				if _, err := p.nc.Write(p.out.Bytes()); err != nil {
					break
				}
				p.out.Reset()
				c.mu.Lock()
				held := cap(c.out) + cap(c.spareOut) + cap(c.block) + int(c.buffered) + 500*(len(c.streams)+len(c.waiting)+len(c.batch))
				c.mu.Unlock()
				if held > 4<<20 {
					t.Fatalf("%d bytes are held", held)
				}
			}
			<-p.gone
			if p.goaway.ErrCode != test.code {
				t.Errorf("GOAWAY %v after %d frames", p.goaway.ErrCode, sent)
			}
		})
	}
}

// A client that calls may do all of that, too.
func TestLivelyClientIsNoFlood(t *testing.T) {
	_, addr := start(t, Options{})
	p := dial(t, addr)
	for i := range uint32(3 * mostPatience / 4) {
		id := 1 + 4*i
		p.framer.WritePing(false, [8]byte{})
		p.framer.WriteWindowUpdate(0, 10)
		p.headers(id, true, requestHeaders()...)
		p.framer.WriteRSTStream(id, http2.ErrCodeCancel)
		p.ask(id+2, "x")
		if i%50 == 0 {
			p.reply(id + 2)
		}
	}
	p.settle()
	if p.goaway != nil {
		t.Error(p.goaway)
	}
}

// What was accepted before a flood is answered.
func TestCallsOutliveAFlood(t *testing.T) {
	_, addr := start(t, Options{})
	p := dial(t, addr)
	p.ask(1, "sleep 100ms")
	p.flush()
	time.Sleep(10 * time.Millisecond)
	for range 2 * mostPatience {
		p.framer.WritePing(true, [8]byte{})
	}
	p.ask(3, "too late")
	if got := p.reply(1).message(); got != "slept" {
		t.Errorf("got %q", got)
	}
	p.fails(http2.ErrCodeEnhanceYourCalm)
	if p.goaway.LastStreamID != 1 || p.replies[3] != nil {
		t.Errorf("%+v; saw %q", p.goaway, p.frames)
	}
}

// Who does not read its replies is cut off: for their size, or for the time.
func TestSlowReader(t *testing.T) {
	for _, o := range []Options{
		{MaxUnsent: 1 << 20, WriteTimeout: time.Hour, KeepaliveTimeout: time.Hour},
		{WriteTimeout: 200 * time.Millisecond, MaxUnsent: 1 << 30},
	} {
		s, addr := start(t, o)
		p := dial(t, addr, window(1<<30))
		p.framer.WriteWindowUpdate(0, 1<<30)
		p.flush()
		for id := uint32(1); ; id += 2 {
			p.ask(id, "big 60000")
			p.nc.SetWriteDeadline(time.Now().Add(patience))
			if _, err := p.nc.Write(p.out.Bytes()); err != nil {
				if strings.Contains(err.Error(), "timeout") {
					t.Fatal("it was not cut off")
				}
				break
			}
			p.out.Reset()
			if id%200 == 1 {
				time.Sleep(time.Millisecond) // for the time to pass before the ids are used up
			}
			if id > 2_000_000 {
				t.Fatal("it was not cut off")
			}
		}
		waitFor(t, "the connection to be closed", func() bool { return s.connections() == 0 })
	}
}

// Replies that wait for a window count, too.
func TestClosedWindowIsASlowReader(t *testing.T) {
	_, addr := start(t, Options{MaxUnsent: 1 << 20})
	p := dial(t, addr, window(0))
	for id := uint32(1); id < 61; id += 2 {
		p.ask(id, "big 60000")
	}
	p.flush()
	p.closed()
}

func (s *Server) connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

func waitFor(t testing.TB, what string, so func() bool) {
	t.Helper()
	for begin := time.Now(); !so(); time.Sleep(time.Millisecond) {
		if time.Since(begin) > patience {
			t.Fatal("waited in vain for " + what)
		}
	}
}

// Goroutines and memory are as before after connections that end in any way.
func TestNothingIsLeft(t *testing.T) {
	s, addr := start(t, Options{})
	run := func(n int) {
		for i := range n {
			p := dial(t, addr)
			p.says(1, "x", "x")
			switch i % 4 {
			case 0:
				p.nc.(*net.TCPConn).SetLinger(0)
			case 1:
				p.framer.WriteGoAway(0, 0, nil)
				p.flush()
			case 2:
				p.ask(3, "sleep 1ms")
				p.headers(5, false, requestHeaders()...)
				p.flush()
			}
			p.nc.Close()
		}
		waitFor(t, "connections to be closed", func() bool { return s.connections() == 0 })
	}
	run(100)
	before := measure()
	run(1000)
	waitFor(t, fmt.Sprint("goroutines to be as before: ", before.goroutines), func() bool { return runtime.NumGoroutine() <= before.goroutines+2 })
	if after := measure(); after.heap > before.heap+2<<20 {
		t.Errorf("%d bytes before, %d after 1,000 connections", before.heap, after.heap)
	}
}

// usage is what the process uses.
type usage struct {
	goroutines int
	heap       uint64 // bytes
}

func measure() usage {
	var m runtime.MemStats
	for range 3 { // what a pool holds is gone after two
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return usage{runtime.NumGoroutine(), m.HeapAlloc}
}

// Messages that are never completed are not kept beyond a bound for all
// connections.
func TestUnfinishedMessagesAreBounded(t *testing.T) {
	const most = 10_000
	s, addr := start(t, Options{MaxBuffered: most})
	tooLarge := 0
	var peers []*peer
	for i := range 10 {
		p := dial(t, addr)
		p.headers(1, false, requestHeaders()...)
		first := 8000
		if i%2 == 0 { // whole, but the request has not ended
			first = 9005
		}
		p.framer.WriteData(1, false, framed(strings.Repeat("x", 9000))[:first])
		p.settle()
		peers = append(peers, p)
		if n := s.buffered.Load(); n > 4*most {
			t.Errorf("%d bytes are kept", n)
		}
	}
	for i, p := range peers {
		p.framer.WriteData(1, true, make([]byte, i%2*1005))
		if p.reply(1).message() == "too large" {
			tooLarge++
		}
	}
	if tooLarge < 6 || tooLarge > 8 { // 4 × 10,000 bytes hold 4 times 8,000 or 9,000
		t.Errorf("%d messages were too large, want 6 to 8", tooLarge)
	}
}

// What a reset leaves in the queue for the window does not gather.
func TestResetsWhileTheWindowIsClosed(t *testing.T) {
	s, addr := start(t, Options{})
	p := dial(t, addr)
	p.ask(1, "big 65530")
	p.reply(1)
	for id := uint32(3); id < 8000; id += 2 {
		p.ask(id, "x")
		if id%100 == 3 {
			p.settle()
		}
		p.framer.WriteRSTStream(id, http2.ErrCodeCancel)
	}
	p.settle()
	c := s.only(t)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting) > 100 {
		t.Errorf("%d wait", len(c.waiting))
	}
}

// Connections past the bound are closed at once, and those that are open go on.
func TestConnectionsAreBounded(t *testing.T) {
	s, addr := start(t, Options{MaxConnections: 2})
	first, second := dial(t, addr), dial(t, addr)
	first.says(1, "x", "x")
	second.says(1, "x", "x")
	for range 3 {
		third, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		third.SetDeadline(time.Now().Add(patience))
		if n, err := third.Read(make([]byte, 1)); n > 0 || err == nil || strings.Contains(err.Error(), "timeout") {
			t.Errorf("the third got %d bytes, %v", n, err)
		}
		third.Close()
	}
	first.says(3, "x", "x")
	second.nc.Close()
	waitFor(t, "a place", func() bool { return s.connections() == 1 })
	dial(t, addr).says(1, "x", "x")
}

// Who opens connections and says nothing keeps out nobody: the one that has been
// silent for the longest loses its place.
func TestSilentConnectionsKeepOutNobody(t *testing.T) {
	s, addr := start(t, Options{MaxConnections: 3})
	known := dial(t, addr)
	known.says(1, "x", "x")
	var silent []net.Conn
	for i := range 6 {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(patience))
		silent = append(silent, c)
		if i < 2 {
			waitFor(t, "a place", func() bool { return s.connections() == 2+i })
			continue
		}
		if n, err := silent[i-2].Read(make([]byte, 1)); n > 0 || err == nil || strings.Contains(err.Error(), "timeout") {
			t.Fatalf("silent connection %d got %d bytes, %v", i-2, n, err)
		}
	}
	dial(t, addr).says(1, "x", "x")
	dial(t, addr).says(1, "x", "x")
	known.says(3, "x", "x")
	if n := s.connections(); n != 3 {
		t.Errorf("%d connections, want 3", n)
	}
}

// When much is kept for clients, those that stall lose it after a second,
// whatever time they have asked for; calls that are complete are answered.
func TestStallingClientsLoseWhatTheyHold(t *testing.T) {
	s, addr := start(t, Options{WriteTimeout: time.Hour, MaxHeld: 50 * streamSize})
	p := dial(t, addr)
	for id := uint32(1); id < 200; id += 2 {
		p.headers(id, false, with("grpc-timeout: 1H")...)
	}
	p.settle()
	c := s.only(t)
	open := func() int {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.streams)
	}
	if n := open(); n != 100 {
		t.Fatalf("%d streams are open", n)
	}
	p.says(201, "x", "x")
	waitFor(t, "the streams to be reset", func() bool { return open() == 0 })
	p.says(203, "x", "x")
}

// Streams of other methods are bounded over all connections.
func TestOtherStreamsAreBoundedTogether(t *testing.T) {
	s, addr := start(t, Options{Other: http.NotFoundHandler()})
	s.others.Store(maxOthers)
	p := dial(t, addr)
	p.headers(1, false, with(":path: /other/Method")...)
	p.wasReset(1, http2.ErrCodeRefusedStream)
	s.others.Store(0)
	p.says(3, "x", "x")
}
