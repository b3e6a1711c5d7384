package backend

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bradfitz/gomemcache/memcache"
	"github.com/cespare/xxhash/v2"
)

// memcachedBatch is how many asks gather into one batch: each counter that it
// charges is a command of its own.
const memcachedBatch = 128

// memcachedServer is one server: the lane to it and the sessions with it.
type memcachedServer struct {
	address string // also as an address of package net
	seed    uint64 // its part in slotOf
	store   *Memcached
	lane    *lane

	mu     sync.Mutex // protects what follows
	idle   []*session // the one used last is at the end
	closed bool
}

func (m *Memcached) newServer(address string) *memcachedServer {
	s := &memcachedServer{address: address, seed: xxhash.Sum64String(address), store: m}
	s.lane = &lane{
		run:     s.runErrands,
		breaker: newBreaker(address, m.options.Budget, m.metrics.transitions, m.log),
		budget:  m.options.Budget, total: &m.strain,
		most: 1, large: memcachedBatch,
	}
	return s
}

// PickServer implements [memcache.ServerSelector]: it is always this one.
func (s *memcachedServer) PickServer(string) (net.Addr, error) { return s, nil }

// Each implements [memcache.ServerSelector].
func (s *memcachedServer) Each(f func(net.Addr) error) error { return f(s) }

// Network implements [net.Addr]. The name of a host is looked up at each dial.
func (s *memcachedServer) Network() string {
	if strings.HasPrefix(s.address, "/") {
		return "unix"
	}
	return "tcp"
}

func (s *memcachedServer) String() string { return s.address }

// session is a client for one goroutine at a time, with one connection that is
// kept. The library's own time-outs are for each line of an answer: here all that
// is said ends at one instant.
type session struct {
	client  *memcache.Client
	end     time.Time
	dialled bool      // since begin
	used    time.Time // until then
}

// keepIdle is how long a session is kept that nobody uses. What is said on one that
// was cut meanwhile, by the server or on the way, may not be said twice.
const keepIdle = 10 * time.Second

// begin returns a session that ends at an instant.
func (s *memcachedServer) begin(end time.Time) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropOld()
	var x *session
	if n := len(s.idle); n > 0 {
		x, s.idle = s.idle[n-1], s.idle[:n-1]
	} else {
		x = &session{client: memcache.NewFromSelector(s)}
		x.client.MaxIdleConns, x.client.Timeout = 1, s.store.options.DialTimeout
		x.client.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			x.dialled = true
			ctx, cancel := context.WithDeadline(ctx, x.end)
			defer cancel()
			conn, err := s.store.dial(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &sessionConn{conn, x}, nil
		}
	}
	x.end, x.dialled = end, false
	return x
}

// dropOld closes the connections that nobody has used for long. Callers hold mu.
func (s *memcachedServer) dropOld() {
	old := 0
	for old < len(s.idle) && time.Since(s.idle[old].used) > keepIdle {
		_ = s.idle[old].client.Close()
		old++
	}
	s.idle = slices.Delete(s.idle, 0, old)
}

// release keeps a session for later, if there is room.
func (s *memcachedServer) release(x *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.idle) >= s.store.options.Connections {
		_ = x.client.Close()
		return
	}
	x.used = time.Now()
	s.idle = append(s.idle, x)
}

// hangUp closes the connections that nobody uses.
func (s *memcachedServer) hangUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.idle {
		_ = x.client.Close()
	}
	s.idle = nil
}

func (s *memcachedServer) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.hangUp()
}

// ping asks whether the server answers.
func (s *memcachedServer) ping(ctx context.Context) error {
	end, ok := ctx.Deadline()
	if !ok {
		end = time.Now().Add(s.store.options.Timeout)
	}
	x := s.begin(end)
	defer s.release(x)
	return s.ask(x, (*memcache.Client).Ping)
}

// ask asks something that changes nothing. A connection that was kept may have
// been cut meanwhile, as by a server that has started anew: then all are given up,
// and it is asked once more on a new one.
func (s *memcachedServer) ask(x *session, what func(*memcache.Client) error) error {
	err := what(x.client)
	if err == nil || x.dialled || isTimeout(err) {
		return err
	}
	s.hangUp()
	_ = x.client.Close()
	return what(x.client)
}

// sessionConn is a connection whose deadline is that of its session, whatever the
// client asks for.
type sessionConn struct {
	net.Conn
	session *session
}

// SetDeadline implements [net.Conn].
func (c *sessionConn) SetDeadline(time.Time) error { return c.Conn.SetDeadline(c.session.end) }
