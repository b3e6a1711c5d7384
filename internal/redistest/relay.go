package redistest

import (
	"io"
	"net"
	"sync"
	"testing"
)

// Relay passes connections on to a server, as a name does that can come to
// stand for another one: what is connected already stays where it is.
type Relay struct {
	// Address is where it listens.
	Address string

	mu     sync.Mutex // protects what follows
	target *Server
}

// StartRelay starts a relay to a server that listens on TCP.
func StartRelay(t testing.TB, target *Server) *Relay {
	t.Helper()
	r := &Relay{target: target}
	r.Address = listen(t, r.pass)
	return r
}

// Point lets new connections go to another server.
func (r *Relay) Point(target *Server) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.target = target
}

// pass copies both ways until one side ends.
func (r *Relay) pass(conn net.Conn) {
	r.mu.Lock()
	address := r.target.Address
	r.mu.Unlock()
	server, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	go func() {
		_, _ = io.Copy(server, conn) // either side may end it
		_ = server.Close()
	}()
	_, _ = io.Copy(conn, server)
}
