package transport

import (
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// ErrStopped is what [Server.Serve] returns after the server was stopped.
var ErrStopped = errors.New("transport: the server was stopped")

// Server serves connections. It is safe for concurrent use.
type Server struct {
	options  Options
	metrics  *metrics
	calls    sync.Pool    // of *Call
	buffered atomic.Int64 // sum of conn.buffered
	others   atomic.Int64 // sum of conn.others
	panicked atomic.Int64 // when a panic was last logged, in Unix seconds

	mu        sync.Mutex
	listeners map[net.Listener]struct{} // guarded by mu, as are those below
	conns     map[*conn]struct{}
	strangers list.List // of *conn: those without a preface yet, the oldest first
	stopped   bool
	empty     chan struct{} // closed when stopped and without connections
	tending   chan struct{} // closed to end the goroutine that tends connections; nil if there is none
}

// New returns a server. The only error is that of a registerer which has metrics
// of these names already.
func New(o Options) (*Server, error) {
	o.setDefaults()
	m, err := newMetrics(o.Registerer)
	if err != nil {
		return nil, err
	}
	return &Server{
		options:   o,
		metrics:   m,
		calls:     sync.Pool{New: func() any { return &Call{Gone: new(atomic.Bool)} }},
		listeners: map[net.Listener]struct{}{},
		conns:     map[*conn]struct{}{},
		empty:     make(chan struct{}),
	}, nil
}

// Serve accepts connections until the server is stopped, when it returns
// [ErrStopped], or until the listener fails for good. It closes the listener.
// Of a listener that gives *tls.Conn it completes the handshakes. It may be
// called for several listeners.
func (s *Server) Serve(listener net.Listener) error {
	defer listener.Close()
	if !s.add(listener) {
		return ErrStopped
	}
	for pause := time.Duration(0); ; {
		nc, err := listener.Accept()
		switch {
		case err == nil:
			pause = 0
			go s.serve(nc)
		case s.isStopped():
			return ErrStopped
		case !temporary(err):
			return err
		default: // too many open files: connections that end will help
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			time.Sleep(pause)
		}
	}
}

func temporary(err error) bool {
	var t interface{ Temporary() bool }
	return errors.As(err, &t) && t.Temporary()
}

func (s *Server) isStopped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopped
}

// add notes a listener, and sees to it that connections are tended. It reports
// false if the server was stopped.
func (s *Server) add(listener net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return false
	}
	s.listeners[listener] = struct{}{}
	if s.tending == nil {
		s.tending = make(chan struct{})
		go s.tend(s.tending)
	}
	return true
}

// serve serves a connection until it ends, or another goroutine reads it.
func (s *Server) serve(nc net.Conn) {
	c := newConn(s, nc)
	if !s.admit(c) {
		nc.Close()
		return
	}
	s.metrics.accepted.Inc()
	if secure, ok := nc.(*tls.Conn); ok {
		ctx, cancel := context.WithTimeout(c.ctx, s.options.HandshakeTimeout)
		err := secure.HandshakeContext(ctx)
		cancel()
		if err != nil {
			c.mu.Lock()
			c.close()
			c.mu.Unlock()
			return
		}
	}
	c.loop()
}

// remove forgets a connection that was closed.
func (s *Server) remove(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(c)
	if s.stopped && len(s.conns) == 0 {
		s.end()
	}
}

// end is called, with mu, when the server is stopped and has no connections.
func (s *Server) end() {
	select {
	case <-s.empty:
	default:
		close(s.empty)
	}
	if s.tending != nil {
		close(s.tending)
		s.tending = nil
	}
}

// stop closes the listeners and returns the connections.
func (s *Server) stop() []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	for listener := range s.listeners {
		listener.Close()
	}
	clear(s.listeners)
	if len(s.conns) == 0 {
		s.end()
	}
	return s.all()
}

// all returns the connections. mu is held.
func (s *Server) all() []*conn {
	conns := make([]*conn, 0, len(s.conns))
	for c := range s.conns {
		conns = append(conns, c)
	}
	return slices.Clip(conns)
}

// GracefulStop closes the listeners, tells clients to go elsewhere, answers
// every call that has reached it, and returns when all connections are closed.
// When ctx ends first, it stops like [Server.Stop].
func (s *Server) GracefulStop(ctx context.Context) {
	for _, c := range s.stop() {
		go c.pushDrain()
	}
	select {
	case <-s.empty:
	case <-ctx.Done():
		s.Stop()
	}
}

// Stop closes the listeners and all connections, and returns when that is done.
func (s *Server) Stop() {
	for _, c := range s.stop() {
		c.mu.Lock()
		c.close()
		c.mu.Unlock()
	}
	<-s.empty
}
