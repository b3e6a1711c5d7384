package transport

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// GOAWAY comes twice: the second one names the last stream, after all that the
// client had sent by the first one has arrived.
func TestGracefulStop(t *testing.T) {
	s, addr := start(t, Options{})
	p := dial(t, addr)
	p.ask(1, "sleep 100ms")
	p.settle2()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		s.GracefulStop(context.Background())
	}()
	p.until("GOAWAY", func() bool { return p.saw("GOAWAY 2147483647 NO_ERROR") })
	p.says(3, "crossed GOAWAY", "crossed GOAWAY")
	p.until("PING", func() bool { return p.saw("PING") })
	p.framer.WritePing(true, drainPing)
	p.flush()
	p.until("the second GOAWAY", func() bool { return p.saw("GOAWAY 3 NO_ERROR") })
	p.ask(5, "too late")
	if got := p.reply(1).message(); got != "slept" {
		t.Errorf("got %q", got)
	}
	p.closed()
	<-stopped
	if p.replies[5] != nil {
		t.Error("a stream after the last one was answered")
	}
	if nc, err := net.Dial("tcp", addr); err == nil {
		nc.Close()
		t.Error("the listener is still open")
	}
}

// settle2 waits a moment for a call to be with the handler.
func (p *peer) settle2() {
	p.flush()
	time.Sleep(5 * time.Millisecond)
}

// A client that has said nothing yet is waited for for a second.
func TestGracefulStopOfSilentClients(t *testing.T) {
	s, addr := start(t, Options{})
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	silent := rawPeer(t, nc)
	s.only(t)
	begin := time.Now()
	s.GracefulStop(context.Background())
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	silent.closed()
	s.GracefulStop(context.Background()) // again
}

// The first calls of a client that connected just before the stop are answered.
func TestGracefulStopAnswersFirstCalls(t *testing.T) {
	s, addr := start(t, Options{})
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	late := rawPeer(t, nc)
	s.only(t)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		s.GracefulStop(context.Background())
	}()
	for !s.isStopped() {
		time.Sleep(time.Millisecond)
	}
	late.out.WriteString(http2.ClientPreface)
	late.framer.WriteSettings()
	late.says(1, "first", "first")
	late.until("GOAWAY", func() bool { return late.saw("GOAWAY 2147483647 NO_ERROR") })
	late.framer.WritePing(true, drainPing)
	late.flush()
	late.closed()
	<-stopped
}

func TestJitter(t *testing.T) {
	if jitter(0) != 0 {
		t.Error("no age has a jitter")
	}
	seen := map[time.Duration]bool{}
	for range 100 {
		age := jitter(time.Hour)
		seen[age] = true
		if age < 54*time.Minute || age > 66*time.Minute {
			t.Errorf("%v", age)
		}
	}
	if len(seen) < 50 {
		t.Errorf("%d different ages of 100", len(seen))
	}
}

// Clients that follow GOAWAY lose no call, whatever the age.
func TestNoCallIsLost(t *testing.T) {
	_, addr := start(t, Options{ConnectionAge: 20 * time.Millisecond})
	var calls, connections atomic.Int64
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			for begin := time.Now(); time.Since(begin) < time.Second; {
				connections.Add(1)
				calls.Add(int64(useUntilGoAway(t, addr)))
			}
		})
	}
	clients.Wait()
	if connections.Load() < 8 || calls.Load() < 40 {
		t.Errorf("%d calls on %d connections", calls.Load(), connections.Load())
	}
}

// useUntilGoAway calls on a new connection until GOAWAY says when to stop, and
// checks that all calls up to the last stream are answered.
func useUntilGoAway(t *testing.T, addr string) int {
	p := dial(t, addr)
	id := uint32(1)
	for ; !p.saw("GOAWAY"); id += 2 {
		p.ask(id, fmt.Sprint("call ", id))
		p.flush()
		if id%7 == 0 {
			p.until("an answer", func() bool { return p.saw("GOAWAY") || p.replies[id] != nil && p.replies[id].ended })
		}
	}
	p.ask(id, "crosses GOAWAY")
	p.until("PING", func() bool { return p.saw("PING") })
	p.framer.WritePing(true, drainPing)
	p.flush()
	p.closed()
	if p.goaway.ErrCode != http2.ErrCodeNo || p.goaway.LastStreamID != id {
		t.Errorf("last GOAWAY %v, want stream %d", p.goaway, id)
	}
	for i := uint32(1); i <= id; i += 2 {
		if r := p.replies[i]; r == nil || !r.ended {
			t.Errorf("call %d of %d was lost", i, id)
		}
	}
	return int(id+1) / 2
}
