package transport

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

func window(n uint32) http2.Setting {
	return http2.Setting{ID: http2.SettingInitialWindowSize, Val: n}
}

// dataFrames returns the lengths of the DATA frames of a stream.
func (p *peer) dataFrames(id uint32) []int {
	var lengths []int
	for _, f := range p.frames {
		if rest, is := strings.CutPrefix(f, fmt.Sprintf("DATA %d ", id)); is {
			var n int
			fmt.Sscan(rest, &n)
			lengths = append(lengths, n)
		}
	}
	return lengths
}

// settle waits until all that was sent has been answered.
func (p *peer) settle() {
	p.t.Helper()
	data := [8]byte{1, byte(rand.Uint32()), byte(rand.Uint32())}
	before := p.count("PING ack")
	p.framer.WritePing(false, data)
	p.flush()
	p.until("PING ack", func() bool { return p.count("PING ack") > before })
}

func (p *peer) count(begin string) (n int) {
	for _, f := range p.frames {
		if strings.HasPrefix(f, begin) {
			n++
		}
	}
	return n
}

// A reply that does not fit waits for the stream's window, however it opens.
func TestStreamWindow(t *testing.T) {
	_, addr := start(t, Options{})
	p := dial(t, addr, window(0))
	p.ask(1, "0123456789")
	p.settle()
	if got := p.dataFrames(1); len(got) != 0 {
		t.Fatalf("DATA of %d in a window of 0", got)
	}
	p.framer.WriteWindowUpdate(1, 4)
	p.settle()
	p.framer.WriteSettings(window(3)) // 3 more
	p.settle()
	p.framer.WriteSettings(window(0)) // 3 fewer: now it is at -3
	p.framer.WriteWindowUpdate(1, 5)  // at 2
	p.settle()
	if got := fmt.Sprint(p.dataFrames(1)); got != "[4 3 2]" {
		t.Fatalf("DATA of %s, want 4, 3 and 2", got)
	}
	p.says2(3, "another stream is no better off", false)
	p.framer.WriteWindowUpdate(1, 1000)
	if got := p.reply(1).message(); got != "0123456789" {
		t.Errorf("got %q", got)
	}
	p.framer.WriteSettings(window(1000))
	if got := p.reply(3).message(); got != "another stream is no better off" {
		t.Errorf("got %q", got)
	}
}

// says2 asks, and checks whether an answer comes before that to a PING.
func (p *peer) says2(id uint32, message string, want bool) {
	p.t.Helper()
	p.ask(id, message)
	p.settle()
	if got := p.replies[id] != nil && p.replies[id].ended; got != want {
		p.t.Errorf("stream %d answered: %v, want %v", id, got, want)
	}
}

// Replies queue for the connection's window, and errors, which are no DATA, do
// not.
func TestConnectionWindow(t *testing.T) {
	_, addr := start(t, Options{})
	p := dial(t, addr, window(1<<20))
	p.ask(1, "big 65530") // all of the window
	p.reply(1)
	for id := uint32(3); id < 13; id += 2 {
		p.ask(id, fmt.Sprint("reply ", id))
	}
	p.ask(13, "status 5 no DATA")
	p.reply(13)
	p.framer.WriteRSTStream(7, http2.ErrCodeCancel)
	p.settle()
	for id := uint32(3); id < 13; id += 2 {
		if len(p.dataFrames(id)) > 0 {
			t.Errorf("DATA on stream %d, without window", id)
		}
	}
	p.framer.WriteWindowUpdate(0, 5+7+3)
	if got := p.reply(3).message(); got != "reply 3" {
		t.Errorf("got %q", got)
	}
	p.settle()
	if got := fmt.Sprint(p.dataFrames(5)); got != "[3]" {
		t.Errorf("stream 5 got DATA of %s, want 3", got)
	}
	p.framer.WriteWindowUpdate(0, 1000)
	for _, id := range []uint32{5, 9, 11} {
		if got := p.reply(id).message(); got != fmt.Sprint("reply ", id) {
			t.Errorf("got %q", got)
		}
	}
	if p.replies[7] != nil && p.replies[7].ended {
		t.Error("a stream that was reset was answered")
	}
}

// A stream that waits for its own window does not hold up the others.
func TestStreamWindowHoldsUpNobody(t *testing.T) {
	_, addr := start(t, Options{})
	p := dial(t, addr, window(100))
	p.ask(1, "big 1000")
	p.says(3, "x", "x")
	p.framer.WriteWindowUpdate(1, 1000)
	if got := len(p.reply(1).message()); got != 1000 {
		t.Errorf("got %d bytes", got)
	}
}

// Replies through windows that open by random amounts are whole.
func TestRandomWindows(t *testing.T) {
	_, addr := start(t, Options{})
	random := rand.New(rand.NewPCG(5, 6))
	p := dial(t, addr, window(7))
	want := map[uint32]int{}
	for i := range uint32(40) {
		id := 1 + 2*i
		want[id] = random.IntN(20000)
		p.ask(id, fmt.Sprint("big ", want[id]))
	}
	p.flush()
	for round := 0; ; round++ {
		done := 0
		for id := range want {
			if r := p.replies[id]; r != nil && r.ended {
				done++
			} else {
				p.framer.WriteWindowUpdate(id, 1+uint32(random.IntN(3000)))
			}
		}
		if done == len(want) {
			break
		}
		if random.IntN(4) == 0 {
			p.framer.WriteSettings(window(uint32(random.IntN(100))))
		}
		p.framer.WriteWindowUpdate(0, 1+uint32(random.IntN(30000)))
		p.settle()
		if round > 10000 {
			t.Fatalf("%d of %d replies", done, len(want))
		}
	}
	for id, n := range want {
		if got := len(p.replies[id].message()); got != n {
			t.Errorf("stream %d: %d bytes, want %d", id, got, n)
		}
	}
}

// Our windows are enforced.
func TestReceiveWindows(t *testing.T) {
	s, addr := start(t, Options{})
	p := dial(t, addr)
	p.headers(1, false, requestHeaders()...)
	p.settle()
	c := s.only(t)
	c.mu.Lock()
	c.streams[1].taken = streamWindow - 10
	c.mu.Unlock()
	p.framer.WriteData(1, false, make([]byte, 11))
	p.wasReset(1, http2.ErrCodeFlowControl)

	c.mu.Lock()
	c.inWindow = connWindow - 10
	c.mu.Unlock()
	p.framer.WriteData(1, false, make([]byte, 11))
	p.fails(http2.ErrCodeFlowControl)
}

// only returns the only connection of a server.
func (s *Server) only(t *testing.T) *conn {
	t.Helper()
	for range 1000 {
		s.mu.Lock()
		conns := s.all()
		s.mu.Unlock()
		if len(conns) == 1 {
			return conns[0]
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal("there is not one connection")
	return nil
}

// What a client sends is given back to its window, in large steps.
func TestWindowsAreGivenBack(t *testing.T) {
	_, addr := start(t, Options{})
	p := dial(t, addr)
	message := strings.Repeat("x", 16000)
	given := func() (n int) {
		for _, f := range p.frames {
			var increment int
			if _, err := fmt.Sscanf(f, "WINDOW_UPDATE 0 %d", &increment); err == nil {
				n += increment
			}
		}
		return n
	}
	before := given()
	id, sent := uint32(1), 0
	for ; sent < 3*connWindow; id += 2 {
		p.framer.WriteWindowUpdate(0, 20000)
		p.says(id, message, message)
		sent += len(message) + 5
	}
	if back := given() - before; back < sent-connWindow || back > sent {
		t.Errorf("%d of %d bytes were given back", back, sent)
	}
	if n := p.count("WINDOW_UPDATE 0"); n > 20 {
		t.Errorf("%d WINDOW_UPDATE", n)
	}
}
