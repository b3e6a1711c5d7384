package transport

import (
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// The handler is told once when a reply was written, and when it is given up
// because the client has reset the stream or gone.
func TestSent(t *testing.T) {
	var sent atomic.Int64
	begun, free := make(chan struct{}, 10), make(chan struct{})
	_, addr := start(t, Options{Handler: handlerFunc(func(batch []*Call) {
		for _, call := range batch {
			call.Sent = func() { sent.Add(1) }
			call.Reply = append(call.Reply, call.Message...)
			if string(call.Message) == "wait" {
				begun <- struct{}{}
				<-free
			}
		}
	})})
	told := func(n int64) {
		t.Helper()
		for end := time.Now().Add(patience); sent.Load() != n; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("told of %d replies, want %d", sent.Load(), n)
			}
		}
	}
	p := dial(t, addr)
	p.says(1, "x", "x")
	told(1)
	p.ask(3, "x")
	p.ask(5, "x")
	p.reply(3)
	p.reply(5)
	told(3)

	p.ask(7, "wait")
	p.flush()
	<-begun
	if n := sent.Load(); n != 3 {
		t.Errorf("told of %d before there was an answer", n)
	}
	p.framer.WriteRSTStream(7, http2.ErrCodeCancel)
	p.says(9, "y", "y")
	gone := dial(t, addr)
	gone.ask(1, "wait")
	gone.flush()
	<-begun
	gone.nc.Close()
	close(free)
	told(6)
	p.says(11, "z", "z")
	told(7)
}
