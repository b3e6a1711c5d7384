package backend

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ratelimitd/ratelimitd/internal/redistest"
	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// fakeMemcached answers each command as a test says: "" is what memcached would
// answer that holds nothing, or stores all.
func fakeMemcached(t *testing.T, answer func(verb, key string) string) *Memcached {
	t.Helper()
	address := listenFor(t, func(conn net.Conn) { serveMemcached(conn, answer) })
	m, err := NewMemcached(MemcachedOptions{Servers: []string{address}, Timeout: time.Second, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

func serveMemcached(conn net.Conn, answer func(verb, key string) string) {
	defer conn.Close()
	usual := map[string]string{"gets": "END\r\n", "add": "STORED\r\n", "cas": "STORED\r\n", "version": "VERSION 1\r\n"}
	for in := bufio.NewReader(conn); ; {
		line, err := in.ReadString('\n')
		words := strings.Fields(line)
		if err != nil || len(words) == 0 {
			return
		}
		key := strings.Join(words[1:], " ")
		if words[0] == "add" || words[0] == "cas" {
			key = words[1]
			size, _ := strconv.ParseInt(words[4], 10, 64)
			_, _ = io.CopyN(io.Discard, in, size+2)
		}
		reply := answer(words[0], key)
		if reply == "" {
			reply = usual[words[0]]
		}
		if _, err := io.WriteString(conn, reply); err != nil {
			return
		}
	}
}

// What others were quicker at is not taken for charged because a write of another
// counter failed in the same round.
func TestMemcachedLostBesideFailed(t *testing.T) {
	for name, alone := range map[string]bool{"two requests": true, "one request": false} {
		t.Run(name, func(t *testing.T) {
			taken, failing := memcachedKey([]byte("{a}taken")), memcachedKey([]byte("{a}failing"))
			m := fakeMemcached(t, func(verb, key string) string {
				switch {
				case verb == "add" && key == taken:
					return "NOT_STORED\r\n"
				case verb == "add" && key == failing:
					return "SERVER_ERROR out of memory storing object\r\n"
				}
				return ""
			})
			l := limitOf(t, "fixed_window", 5, aLongTime)
			asks := []algorithm.Ask{{Key: []byte("{a}taken"), Limit: l, Hits: 1}, {Key: []byte("{a}failing"), Limit: l, Hits: 1}}
			if alone {
				asks[1].Group = 1
			}
			out := make([]algorithm.Decision, 2)
			m.Decide(t.Context(), asks, out)
			for i := range out {
				// The end may come while it is read once more.
				if d := &out[i]; d.Outcome != algorithm.Undecided || !errors.Is(d.Err, ErrUnavailable) && !errors.Is(d.Err, ErrTimeout) {
					t.Errorf("ask %d: %+v", i, *d)
				}
			}
		})
	}
}

// A memcached that cannot tell whether others have written decides nothing, and
// says at once why.
func TestMemcachedWithoutCas(t *testing.T) {
	server := redistest.StartMemcached(t, redistest.MemcachedOptions{Args: []string{"-C"}})
	m, _ := openMemcached(t, []*redistest.Memcached{server}, nil)
	l := limitOf(t, "fixed_window", 5, aLongTime)
	ask1(t, m, "{a}k", l, 1)
	if d := ask1(t, m, "{a}k", l, 1); d.Outcome != algorithm.Undecided || !errors.Is(d.Err, errNoCas) {
		t.Errorf("%+v", d)
	}
}

// Of the connections that were kept those are closed that nobody has used for long:
// what is written on one that was cut meanwhile is lost.
func TestMemcachedIdle(t *testing.T) {
	m := fakeMemcached(t, func(string, string) string { return "" })
	s := m.servers.Load().all[0]
	var sessions []*session
	for range 3 {
		sessions = append(sessions, s.begin(time.Now().Add(time.Second)))
	}
	for i, x := range sessions {
		s.release(x)
		x.used = time.Now().Add(time.Duration(i-2) * (keepIdle/2 + time.Second))
	}
	for i, want := range []*session{sessions[2], sessions[1]} {
		if got := s.begin(time.Now().Add(time.Second)); got != want {
			t.Errorf("the %d. is another one", i+1)
		}
	}
	if got := s.begin(time.Now().Add(time.Second)); got == sessions[0] {
		t.Error("what was idle for long is used")
	}
}

// What is too large for memcached concerns its own requests only, however many.
func TestMemcachedTooLarge(t *testing.T) {
	server := redistest.StartMemcached(t, redistest.MemcachedOptions{Args: []string{"-I", "4096", "-o", "slab_chunk_max=4096"}})
	m, _ := openMemcached(t, []*redistest.Memcached{server}, nil)
	long, l := limitOf(t, "sliding_window_log", 10_000, aLongTime), limitOf(t, "fixed_window", 5, aLongTime)
	for range 2 * tripCalls {
		if d := ask1(t, m, "{a}long", long, 10_000); !errors.Is(d.Err, errTooLarge) {
			t.Fatalf("%+v", d)
		}
	}
	if d := ask1(t, m, "{a}other", l, 1); d.Outcome != algorithm.Allowed {
		t.Errorf("%+v", d)
	}
}

func TestMemcachedWriteErrors(t *testing.T) {
	for reply, want := range map[string]error{
		"SERVER_ERROR out of memory storing object":      ErrUnavailable,
		"SERVER_ERROR Out of memory allocating new item": ErrUnavailable,
		"SERVER_ERROR reply timeout":                     ErrLost, // a proxy's: it may be stored
		"CLIENT_ERROR bad data chunk":                    ErrLost,
		"STOR":                                           ErrLost,
		"ERROR":                                          ErrLost,
	} {
		m := fakeMemcached(t, func(verb, _ string) string {
			if verb == "add" {
				return reply + "\r\n"
			}
			return ""
		})
		if d := ask1(t, m, "{a}k", limitOf(t, "fixed_window", 5, aLongTime), 1); !errors.Is(d.Err, want) {
			t.Errorf("%s: %+v", reply, d)
		}
	}
}

// What cannot be read, ends in the middle or comes late concerns the requests that
// wait for it, in their time, and is not taken for the answer to the next ones.
func TestMemcachedGarbage(t *testing.T) {
	k := memcachedKey([]byte("{a}k"))
	stored := string(limitOf(t, "fixed_window", 5, aLongTime).AppendState(nil, &algorithm.State{At: 1, Used: 3, Aux: 2}))
	for _, reply := range []string{
		"VALUE\r\n", "VALUE \r\n", "VALUE " + k + "\r\n", "VALUE " + k + " 0 5\r\nab", "VALUE " + k + " 0 1 1\r\nabc\r\nEND\r\n",
		"VALUE " + k + " 0 -1 1\r\n\r\nEND\r\n", "VALUE " + k + " 0 4294967296 1\r\nEND\r\n", "VALUE " + k + " 0 1000000 1\r\nEND\r\n",
		"VALUE " + k + " 0 0 1\r\n\r\nEND\r\n", "END", "END\n", "\r\n", "ERROR\r\n", "SERVER_ERROR busy\r\n", strings.Repeat("x", 10_000),
		"VALUE " + k + " 0 4 1\r\n" + stored + "\r\n", "late",
	} {
		var rubbish atomic.Bool
		rubbish.Store(true)
		m := fakeMemcached(t, func(verb, _ string) string {
			switch {
			case verb != "gets" || !rubbish.Load():
				return ""
			case reply == "late":
				time.Sleep(80 * time.Millisecond)
				return "VALUE " + k + " 0 4 1\r\n" + stored + "\r\nEND\r\n"
			}
			return reply
		})
		l := limitOf(t, "fixed_window", 5, aLongTime)
		for _, keys := range []int{1, 3} {
			var asks []algorithm.Ask
			for i := range keys {
				asks = append(asks, algorithm.Ask{Key: []byte("{a}k" + strings.Repeat("x", i)), Limit: l, Hits: 1, Group: int32(i)})
			}
			rubbish.Store(true)
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			out, began := make([]algorithm.Decision, keys), time.Now()
			m.Decide(ctx, asks, out)
			cancel()
			if took := time.Since(began); out[0].Outcome != algorithm.Undecided || took > 300*time.Millisecond {
				t.Errorf("%.40q: %+v after %v", reply, out[0], took)
			}
			rubbish.Store(false)
			if d := ask1(t, m, "{a}k", l, 1); d.Outcome != algorithm.Allowed || d.Before != 0 {
				t.Errorf("after %.40q: %+v", reply, d)
			}
		}
	}
}
