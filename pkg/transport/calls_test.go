package transport

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// The first reply fills the client's table, the second is indices.
func TestReplies(t *testing.T) {
	_, addr := start(t, Options{})
	p := dial(t, addr)
	for id := uint32(1); id < 8; id += 2 {
		p.says(id, fmt.Sprint("hello ", id), fmt.Sprint("hello ", id))
		r := p.replies[id]
		if want := []string{":status: 200", "content-type: application/grpc"}; !slices.Equal(r.headers, want) {
			t.Errorf("headers %q, want %q", r.headers, want)
		}
		if want := []string{"grpc-status: 0"}; !slices.Equal(r.trailers, want) {
			t.Errorf("trailers %q, want %q", r.trailers, want)
		}
	}
}

func TestErrorsAreTrailersOnly(t *testing.T) {
	_, addr := start(t, Options{})
	p := dial(t, addr)
	p.ask(1, "status 14 50% über\n")
	r := p.reply(1)
	want := []string{":status: 200", "content-type: application/grpc", "grpc-status: 14", "grpc-message: 50%25 %C3%BCber%0A"}
	if !slices.Equal(r.headers, want) || r.trailers != nil || r.data != nil {
		t.Errorf("got %q %q %q, want %q", r.headers, r.data, r.trailers, want)
	}
	p.says(3, "still there", "still there")
}

func TestPanicIsInternal(t *testing.T) {
	_, addr := start(t, Options{})
	p := dial(t, addr)
	p.ask(1, "panic")
	if got := p.reply(1).headers; !slices.Contains(got, "grpc-status: 13") {
		t.Errorf("headers %q", got)
	}
	p.says(3, "still there", "still there")
}

// What arrives together is decided together, and answered in one go.
func TestBatch(t *testing.T) {
	handler := &echo{}
	_, addr := start(t, Options{Handler: handler})
	p := dial(t, addr)
	p.says(1, "x", "x")
	for i := range uint32(50) {
		p.ask(3+2*i, fmt.Sprint("call ", i))
	}
	for i := range uint32(50) {
		if got, want := p.reply(3+2*i).message(), fmt.Sprint("call ", i); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	handler.mu.Lock()
	defer handler.mu.Unlock()
	if len(handler.batches) > 10 {
		t.Errorf("51 calls in batches of %d", handler.batches)
	}
}

// A slow call does not hold up those that come after it, on its connection.
func TestSlowHandlerHoldsUpNobody(t *testing.T) {
	_, addr := start(t, Options{Takeover: time.Millisecond})
	p := dial(t, addr)
	p.ask(1, "sleep 1h")
	p.ask(3, "in the same batch, which is slow")
	p.flush()
	for i := range uint32(20) {
		time.Sleep(time.Duration(rand.IntN(2000)) * time.Microsecond)
		p.says(5+2*i, "quick", "quick")
	}
	for i := range uint32(mostBehind - 1) { // as many as may be behind
		p.ask(101+2*i, "sleep 1ms")
		p.flush()
		time.Sleep(3 * time.Millisecond)
	}
	for i := range uint32(mostBehind - 1) {
		p.reply(101 + 2*i)
	}
	if p.replies[1] != nil || p.replies[3] != nil {
		t.Error("the slow call was answered")
	}
}

// A call that may wait much longer than another is not decided within the time
// of that one.
func TestPatientCallsAreDecidedApart(t *testing.T) {
	for _, inline := range []bool{false, true} {
		handler := &echo{}
		_, addr := start(t, Options{Handler: handler, Inline: inline})
		p := dial(t, addr)
		p.says(1, "x", "x")
		for i, timeout := range []string{"9S", "8S", "60S", "90S", "1H", ""} {
			more := []string{"grpc-timeout: " + timeout}
			if timeout == "" {
				more = nil
			}
			p.ask(uint32(3+2*i), fmt.Sprint("call ", timeout), more...)
		}
		for i, timeout := range []string{"9S", "8S", "60S", "90S", "1H", ""} {
			if got, want := p.reply(uint32(3+2*i)).message(), fmt.Sprint("call ", timeout); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		handler.mu.Lock()
		slices.Sort(handler.batches)
		got, want := fmt.Sprint(handler.batches), "[1 1 1 2 2]"
		if inline {
			want = "[1 6]"
		}
		if got != want {
			t.Errorf("inline %v: batches of %s, want %s", inline, got, want)
		}
		handler.mu.Unlock()
	}
}

func TestDeadline(t *testing.T) {
	_, addr := start(t, Options{})
	p := dial(t, addr)
	p.headers(1, false, requestHeaders("grpc-timeout: 1m")...)
	p.flush()
	time.Sleep(20 * time.Millisecond)
	p.framer.WriteData(1, true, framed("late"))
	if got := p.reply(1).headers; !slices.Contains(got, "grpc-status: 4") {
		t.Errorf("headers %q", got)
	}
	p.ask(3, "never in time", "grpc-timeout: 0S")
	if got := p.reply(3).headers; !slices.Contains(got, "grpc-status: 4") {
		t.Errorf("headers %q", got)
	}
	p.ask(5, "in time", "grpc-timeout: 99999999H")
	if got := p.reply(5).message(); got != "in time" {
		t.Errorf("got %q", got)
	}
}

// A message may come in any pieces.
func TestMessageInPieces(t *testing.T) {
	_, addr := start(t, Options{})
	p := dial(t, addr)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range uint32(200) {
		id := 1 + 2*i
		message := strings.Repeat("m", random.IntN(40))
		p.headers(id, false, requestHeaders()...)
		for data := framed(message); ; {
			n := random.IntN(len(data) + 1)
			p.framer.WriteDataPadded(id, n == len(data), data[:n], make([]byte, random.IntN(5)))
			if data = data[n:]; len(data) == 0 {
				break
			}
		}
		if random.IntN(3) == 0 {
			p.flush()
		}
		if p.out.Len() > 0 {
			p.flush()
		}
		got := p.reply(id)
		if want := framed(message); !bytes.Equal(got.data, want) {
			t.Fatalf("got %q, want %q", got.data, want)
		}
	}
}

// Messages much larger than any window go both ways.
func TestLargeMessages(t *testing.T) {
	_, addr := start(t, Options{})
	p := dial(t, addr, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 30})
	p.framer.WriteWindowUpdate(0, 1<<30)
	big := strings.Repeat("0123456789abcdef", 4<<20/16)
	p.ask(1, big)
	out := bytes.Clone(p.out.Bytes())
	p.out.Reset()
	done := make(chan struct{})
	go func() { // while we read
		defer close(done)
		p.nc.Write(out)
	}()
	if got := p.reply(1).message(); got != big {
		t.Errorf("got %d bytes, want %d", len(got), len(big))
	}
	<-done
	if !p.saw("WINDOW_UPDATE 1 ") {
		t.Error("the stream's window was never given back")
	}
}

func TestTooLarge(t *testing.T) {
	handler := &echo{}
	_, addr := start(t, Options{Handler: handler, MaxMessage: 1000, MaxBuffered: 3000})
	p := dial(t, addr)
	p.says(1, strings.Repeat("x", 1000), strings.Repeat("x", 1000))
	p.says(3, strings.Repeat("x", 1001), "too large")
	p.says(5, strings.Repeat("x", 60000), "too large")

	// Pieces of four messages of which only three fit.
	piece := framed(strings.Repeat("y", 1000))
	for id := uint32(7); id < 15; id += 2 {
		p.headers(id, false, requestHeaders()...)
		p.framer.WriteData(id, false, piece[:900])
	}
	for id := uint32(7); id < 15; id += 2 {
		p.framer.WriteData(id, true, piece[900:])
	}
	tooLarge := 0
	for id := uint32(7); id < 15; id += 2 {
		switch got := p.reply(id).message(); got {
		case "too large":
			tooLarge++
		case strings.Repeat("y", 1000):
		default:
			t.Errorf("got %q", got)
		}
	}
	if tooLarge != 1 {
		t.Errorf("%d messages were too large, want 1", tooLarge)
	}
	p.says(21, strings.Repeat("x", 1000), strings.Repeat("x", 1000))
}

// A call's mark comes from its headers, also when they are as before.
func TestMark(t *testing.T) {
	asked := 0
	marks := make(chan any, 100)
	_, addr := start(t, Options{
		Mark: func(header func(string) string) any {
			asked++
			return len(header("user-agent"))
		},
		Handler: handlerFunc(func(batch []*Call) {
			for _, call := range batch {
				marks <- call.Mark
			}
		}),
	})
	p := dial(t, addr)
	id := uint32(1)
	for _, agent := range []string{"a", "a", "a", "a", "bb", "bb", "bb", "a", "a", "", ""} {
		var more []string
		if agent != "" {
			more = []string{"user-agent: " + agent}
		}
		p.ask(id, "x", more...)
		p.reply(id)
		id += 2
		if got := <-marks; got != len(agent) {
			t.Errorf("mark %v of %q", got, agent)
		}
	}
	if asked < 4 || asked > 8 {
		t.Errorf("asked %d times", asked)
	}
}

type handlerFunc func(batch []*Call)

func (f handlerFunc) Handle(_ context.Context, batch []*Call) { f(batch) }

// A call that was reset is not answered, and nothing of it is left.
func TestReset(t *testing.T) {
	handler := &echo{}
	s, addr := start(t, Options{Handler: handler})
	p := dial(t, addr)
	p.ask(1, "x")
	p.framer.WriteRSTStream(1, http2.ErrCodeCancel) // in the same write
	p.headers(3, false, requestHeaders()...)
	p.framer.WriteData(3, false, framed("x")[:3])
	p.framer.WriteRSTStream(3, http2.ErrCodeCancel)
	p.ask(5, "sleep 20ms")
	p.flush()
	time.Sleep(5 * time.Millisecond)
	p.framer.WriteRSTStream(5, http2.ErrCodeCancel)
	p.says(7, "y", "y")
	time.Sleep(30 * time.Millisecond)
	p.says(9, "z", "z")
	for id := range p.replies {
		if id < 7 {
			t.Errorf("stream %d was answered", id)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.mu.Lock()
		if len(c.streams) != 0 || c.buffered != 0 {
			t.Errorf("%d streams, %d bytes are left", len(c.streams), c.buffered)
		}
		c.mu.Unlock()
	}
}

// The handler can see that a client does not wait any more, for a stream that
// was reset and for a connection that was closed.
func TestGone(t *testing.T) {
	calls, free := make(chan *Call, 1), make(chan struct{})
	_, addr := start(t, Options{Handler: handlerFunc(func(batch []*Call) {
		if batch[0].Gone.Load() {
			t.Error("gone before it was")
		}
		if age := time.Since(batch[0].Arrived); age < 0 || age > time.Minute {
			t.Errorf("arrived %v ago", age)
		}
		calls <- batch[0]
		<-free
	})})
	defer close(free)
	for _, leave := range []func(p *peer){
		func(p *peer) {
			p.framer.WriteRSTStream(1, http2.ErrCodeCancel)
			p.flush()
		},
		func(p *peer) { p.nc.Close() },
	} {
		p := dial(t, addr)
		p.ask(1, "x")
		p.flush()
		call := <-calls
		leave(p)
		for end := time.Now().Add(patience); !call.Gone.Load(); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("nobody told that the client has gone")
			}
		}
	}
}

// Headers of one name are one list.
func TestMarkOfSeveral(t *testing.T) {
	marks := make(chan any, 1)
	_, addr := start(t, Options{
		Mark: func(header func(string) string) any {
			return header("x-one") + ";" + header("x-two") + ";" + header("x-none")
		},
		Handler: handlerFunc(func(batch []*Call) { marks <- batch[0].Mark }),
	})
	p := dial(t, addr)
	p.ask(1, "x", "x-one: a", "x-two: a", "x-one: b", "x-two: c")
	p.reply(1)
	if got := <-marks; got != "a,b;a,c;" {
		t.Errorf("got %q", got)
	}
}
