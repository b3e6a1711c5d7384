package integration

import (
	"bytes"
	"net"
	"sync"
	"testing"
	"time"
)

// holdingProxy stands between ratelimitd and Redis. It can hold calls of the script, or let them through one by one as a slow
// Redis does, while all else passes.
type holdingProxy struct {
	address string

	mu    sync.Mutex
	held  bool             // guarded by mu, as is what follows
	kept  map[net.Conn]int // script calls that wait in each connection
	moved sync.Cond        // held has changed

	turn  sync.Mutex    // held by the call that passes
	delay time.Duration // that each takes; set before there are any
}

// holdBetween starts a proxy for a server. It passes everything on.
func holdBetween(t *testing.T, server string) *holdingProxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &holdingProxy{address: listener.Addr().String(), kept: map[net.Conn]int{}}
	p.moved.L = &p.mu
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go p.serve(client, server)
		}
	}()
	t.Cleanup(func() {
		listener.Close()
		p.release()
	})
	return p
}

func (p *holdingProxy) serve(client net.Conn, address string) {
	defer client.Close()
	server, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		defer client.Close()
		pass(server, client, func([]byte) {})
	}()
	pass(client, server, func(b []byte) {
		if n := bytes.Count(b, []byte("evalsha")); n > 0 {
			p.wait(client, n)
			p.delayAll(n)
		}
	})
}

// pass passes bytes on until either end closes.
func pass(from, to net.Conn, before func([]byte)) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			before(buffer[:n])
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// wait returns when calls are not held.
func (p *holdingProxy) wait(c net.Conn, calls int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kept[c] += calls
	for p.held {
		p.moved.Wait()
	}
	delete(p.kept, c)
}

// delayAll lets calls pass, one after the other.
func (p *holdingProxy) delayAll(calls int) {
	if p.delay == 0 {
		return
	}
	p.turn.Lock()
	defer p.turn.Unlock()
	time.Sleep(time.Duration(calls) * p.delay)
}

// hold keeps calls from the server, from now on.
func (p *holdingProxy) hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = true
}

// release passes on what is held, and all that comes.
func (p *holdingProxy) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = false
	p.moved.Broadcast()
}

// calls returns how many script calls are held.
func (p *holdingProxy) calls() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, calls := range p.kept {
		n += calls
	}
	return n
}
