//go:build !race

package transport

// The race detector lets pools forget at random, so allocations are counted
// without it.

import (
	"runtime"
	"testing"
)

func TestCallsDoNotAllocate(t *testing.T) {
	s := newServer(t, Options{Handler: fixed{}, Inline: true})
	const calls = 64_000
	l := newLoad(calls, 64, false)
	c := newConn(s, l)
	c.in = make([]byte, largeBuffer)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	c.loop()
	runtime.ReadMemStats(&after)
	if l.left > 0 || l.written < calls*50 {
		t.Fatalf("%d calls are left, %d bytes were written", l.left, l.written)
	}
	if n := after.Mallocs - before.Mallocs; n > calls/50 { // each call on its way has buffers of its own
		t.Errorf("%d allocations in %d calls", n, calls)
	}
}
