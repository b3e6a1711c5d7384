package backend

import (
	"bufio"
	"bytes"
	"io"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// liar is a server that answers whatever it is told to, to any command.
type liar struct {
	address string
	answer  atomic.Pointer[[]byte]
}

func lie(t testing.TB) *liar {
	t.Helper()
	l := &liar{}
	l.address = listenFor(t, l.serve)
	return l
}

// serve answers each command, of which the first line begins with *, and then
// closes the connection: what the client still waits for does not come.
func (l *liar) serve(conn net.Conn) {
	defer conn.Close()
	r := bufio.NewReader(conn)
	if _, err := r.Peek(1); err != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, r, int64(r.Buffered()))
	if answer := l.answer.Load(); answer != nil {
		_, _ = conn.Write(*answer)
	}
}

// FuzzRedisReply answers a request's script call with anything: it is undecided
// with a reason, or decided, and the process lives and keeps little.
func FuzzRedisReply(f *testing.F) {
	for _, reply := range []string{
		"", "$-1\r\n", "$5\r\nhello\r\n", "+OK\r\n", ":7\r\n", "*0\r\n", "*-1\r\n", "-ERR no\r\n", "-NOSCRIPT No matching script.\r\n",
		"-MOVED 1 127.0.0.1:1\r\n", "-ASK 1 :0\r\n", "-MOVED\r\n", "-LOADING\r\n", "-OOM\r\n", "-READONLY\r\n", "-BUSY\r\n", "-\r\n", "%1\r\n+a\r\n:1\r\n", "_\r\n", "#t\r\n",
		"$999999999999\r\nx", "$999999999999999999\r\nx", "*999999999999999999\r\n", "$536870912\r\nx", "*99999999999\r\n:1\r\n", "*1\r\n*1\r\n*1\r\n*1\r\n", ">2\r\n+a\r\n+b\r\n", "|1\r\n+a\r\n+b\r\n:1\r\n", ",nan\r\n", "(999\r\n",
		"$34\r\n" + string(make([]byte, 34)) + "\r\n",
	} {
		f.Add([]byte(reply))
	}
	server := lie(f)
	where, err := ParseRedisURL("redis://" + server.address)
	if err != nil {
		f.Fatal(err)
	}
	limit := limitOf(f, "fixed_window", 5, time.Hour)
	f.Fuzz(func(t *testing.T, reply []byte) {
		reply = bytes.Clone(reply)
		server.answer.Store(&reply)
		r, err := NewRedis(RedisOptions{Server: where, Log: slog.New(slog.DiscardHandler), ReadTimeout: time.Second, DialTimeout: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		var out [1]algorithm.Decision
		r.Decide(t.Context(), []algorithm.Ask{{Key: []byte("{00}k"), Limit: limit, Hits: 1}}, out[:])
		if d := out[0]; (d.Outcome == algorithm.Undecided) != (d.Err != nil) || d.Remaining < 0 || d.RetryAfter < 0 {
			t.Errorf("%q: %+v", reply, d)
		}
		_ = r.Ping(t.Context())
		p := &Replicas{redis: r, unmet: 1}
		if n, err := p.beat(t.Context(), true); err == nil {
			p.count.Store(int64(p.heads.saw(n, time.Now())))
		}
		if p.Count() < 1 {
			t.Errorf("%q: %d replicas", reply, p.Count())
		}
	})
}
