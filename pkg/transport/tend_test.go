package transport

import (
	"context"
	"crypto/tls"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
)

// pipes is a listener whose connections are pipes within the process, so that
// time can be made to pass.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	nc, open := <-p
	if !open {
		return nil, net.ErrClosed
	}
	return nc, nil
}

func (p pipes) Close() error {
	select {
	case <-p:
	default:
		close(p)
	}
	return nil
}

func (pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// inFakeTime runs a test with a server whose time is not real.
func inFakeTime(t *testing.T, o Options, test func(t *testing.T, s *Server, connect func() net.Conn)) {
	synctest.Test(t, func(t *testing.T) {
		s, listener := newServer(t, o), make(pipes)
		go s.Serve(listener)
		defer s.Stop()
		test(t, s, func() net.Conn {
			client, server := net.Pipe()
			listener <- server
			return client
		})
	})
}

// lasts waits for the end of a connection, and checks after how long that comes.
// A PING is answered if pong says so.
func (p *peer) lasts(from time.Time, least, most time.Duration, pong bool) {
	p.t.Helper()
	for {
		p.nc.SetDeadline(time.Time{})
		pings := p.count("PING")
		if err := p.framedRead(); err != nil {
			break
		}
		if pong && p.count("PING") > pings {
			p.framer.WritePing(true, p.ping)
			p.nc.Write(p.out.Bytes())
			p.out.Reset()
		}
	}
	if took := time.Since(from); took < least || took > most {
		p.t.Errorf("the connection ended after %v, want %v to %v; saw %q", took, least, most, p.frames)
	}
}

// Who does not get through the handshake does not stay.
func TestHandshakeTimeout(t *testing.T) {
	for _, said := range []string{"", "PRI", http2.ClientPreface, http2.ClientPreface + "\x00\x00"} {
		inFakeTime(t, Options{}, func(t *testing.T, _ *Server, connect func() net.Conn) {
			p, begin := rawPeer(t, connect()), time.Now()
			go func() { p.nc.Write([]byte(said)) }()
			p.lasts(begin, 10*time.Second, 12*time.Second, true)
		})
	}
}

func TestTLSHandshakeTimeout(t *testing.T) {
	config := &tls.Config{Certificates: []tls.Certificate{certificate(t)}, NextProtos: []string{"h2"}}
	synctest.Test(t, func(t *testing.T) {
		s, listener := newServer(t, Options{}), make(pipes)
		go s.Serve(tls.NewListener(listener, config))
		client, server := net.Pipe()
		listener <- server
		rawPeer(t, client).lasts(time.Now(), 10*time.Second, 12*time.Second, true)
		s.Stop()
	})
}

// An idle client that answers PINGs stays; one that does not is gone.
func TestKeepalive(t *testing.T) {
	inFakeTime(t, Options{}, func(t *testing.T, _ *Server, connect func() net.Conn) {
		p := newPeer(t, connect())
		begin := time.Now()
		p.lasts(begin, time.Minute+20*time.Second, time.Minute+24*time.Second, false)
	})
	inFakeTime(t, Options{}, func(t *testing.T, s *Server, connect func() net.Conn) {
		p := newPeer(t, connect())
		go func() {
			time.Sleep(24 * time.Hour)
			s.Stop()
		}()
		p.lasts(time.Now(), 24*time.Hour, 24*time.Hour, true)
		if n := p.count("PING"); n < 24*50 || n > 24*60 {
			t.Errorf("%d PINGs in a day", n)
		}
	})
}

// A connection is asked to end when it is old, and ends when its calls have, or
// when their grace is over.
func TestConnectionAge(t *testing.T) {
	o := Options{ConnectionAge: time.Hour, ConnectionGrace: 20 * time.Minute}
	tests := []struct {
		call        string
		least, most time.Duration
		answered    bool
	}{
		{"quick", 54 * time.Minute, 67 * time.Minute, true},
		{"sleep 68m", 68 * time.Minute, 69 * time.Minute, true},
		{"sleep 100h", 74 * time.Minute, 87 * time.Minute, false},
	}
	for _, test := range tests {
		inFakeTime(t, o, func(t *testing.T, _ *Server, connect func() net.Conn) {
			p, begin := newPeer(t, connect()), time.Now()
			p.ask(1, test.call)
			p.flush()
			p.lasts(begin, test.least, test.most, true)
			if !p.saw("GOAWAY 2147483647 NO_ERROR") || !p.saw("GOAWAY 1 NO_ERROR") {
				t.Errorf("saw %q", p.frames)
			}
			if answered := p.replies[1] != nil && p.replies[1].ended; answered != test.answered {
				t.Errorf("%s: answered %v", test.call, answered)
			}
		})
	}
}

// A client that does not answer the PING behind GOAWAY is not waited for long.
func TestDrainTimeout(t *testing.T) {
	inFakeTime(t, Options{}, func(t *testing.T, s *Server, connect func() net.Conn) {
		p, begin := newPeer(t, connect()), time.Now()
		go s.GracefulStop(context.Background())
		p.lasts(begin, 5*time.Second, 8*time.Second, false)
		if !p.saw("GOAWAY 2147483647 NO_ERROR") || !p.saw("GOAWAY 0 NO_ERROR") {
			t.Errorf("saw %q", p.frames)
		}
	})
}

// When there is no more time to stop gracefully, calls are lost.
func TestGracefulStopEnds(t *testing.T) {
	inFakeTime(t, Options{}, func(t *testing.T, s *Server, connect func() net.Conn) {
		p, begin := newPeer(t, connect()), time.Now()
		p.ask(1, "sleep 1h")
		p.flush()
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			s.GracefulStop(ctx)
		}()
		p.lasts(begin, 30*time.Second, 31*time.Second, true)
		if p.replies[1] != nil {
			t.Error("the call was answered")
		}
	})
}

// Who stops in the middle of a request does not keep it open.
func TestUnfinishedRequests(t *testing.T) {
	inFakeTime(t, Options{}, func(t *testing.T, _ *Server, connect func() net.Conn) {
		p, begin := newPeer(t, connect()), time.Now()
		p.headers(1, false, requestHeaders("grpc-timeout: 99999999H")...)
		p.headers(3, false, requestHeaders()...)
		p.framer.WriteData(3, false, framed("x")[:5])
		p.flush()
		p.nc.SetDeadline(time.Time{})
		for p.resets[1] == 0 || p.resets[3] == 0 {
			if err := p.framedRead(); err != nil {
				t.Fatal(err)
			}
			if p.ping != [8]byte{1} { // still there
				p.ping = [8]byte{1}
				p.framer.WritePing(true, p.ping)
				p.nc.Write(p.out.Bytes())
				p.out.Reset()
			}
		}
		if took := time.Since(begin); took < 70*time.Second || took > 73*time.Second {
			t.Errorf("it took %v", took)
		}
	})
	inFakeTime(t, Options{}, func(t *testing.T, _ *Server, connect func() net.Conn) {
		p, begin := newPeer(t, connect()), time.Now()
		p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x82}})
		p.flush()
		p.lasts(begin, 10*time.Second, 13*time.Second, true)
	})
}

// Who takes nothing of its replies is cut off.
func TestWriteTimeout(t *testing.T) {
	inFakeTime(t, Options{}, func(t *testing.T, s *Server, connect func() net.Conn) {
		p, begin := newPeer(t, connect()), time.Now()
		p.ask(1, "hello")
		p.flush()
		for s.connections() > 0 {
			time.Sleep(100 * time.Millisecond)
		}
		if took := time.Since(begin); took < 10*time.Second || took > 12*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// A stalled write does not keep a connection from being read.
func TestReadingGoesOnWhileWritingStalls(t *testing.T) {
	inFakeTime(t, Options{Inline: true}, func(t *testing.T, _ *Server, connect func() net.Conn) {
		p := newPeer(t, connect())
		p.nc.SetDeadline(time.Now().Add(time.Minute))
		for id := uint32(1); id < 21; id += 2 { // each write of ours ends when it was read
			p.ask(id, "hello")
			p.flush()
		}
		for id := uint32(1); id < 21; id += 2 {
			p.reply(id)
		}
	})
}
