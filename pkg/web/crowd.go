package web

import (
	"container/list"
	"net"
	"net/http"
	"sync"
	"time"
)

// crowd bounds the connections of a server. When there are as many as may be, a
// further one takes the place of the one that has been idle longest, or has been
// sending the head of its first request longest; or else of the one that has had
// the longest for a request. So clients that hold connections and are silent or
// slow keep out nobody.
type crowd struct {
	net.Listener
	most int

	// patience is how long a request may take before another connection may
	// take its place.
	patience time.Duration

	mu     sync.Mutex
	places map[net.Conn]*list.Element // of idle or active
	idle   *list.List                 // of place, the longest idle first
	active *list.List                 // likewise, those that a request is answered on
}

// place is that of a connection in the crowd.
type place struct {
	conn  net.Conn
	since time.Time
	in    *list.List
}

// Bound has the server keep at most so many connections of the listener that
// this returns. It is called before the server serves.
func Bound(server *http.Server, l net.Listener, most int) net.Listener {
	c := &crowd{
		Listener: l, most: most, patience: time.Second,
		places: make(map[net.Conn]*list.Element), idle: list.New(), active: list.New(),
	}
	server.ConnState = c.note
	return c
}

// Accept closes connections that have no place.
func (c *crowd) Accept() (net.Conn, error) {
	for {
		conn, err := c.Listener.Accept()
		if err != nil || c.enter(conn) {
			return conn, err
		}
		conn.Close()
	}
}

// enter finds a place for a connection. It reports false if there is none.
func (c *crowd) enter(conn net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.places) >= c.most && !c.makeRoom() {
		return false
	}
	c.put(conn, c.idle)
	return true
}

// makeRoom closes a connection.
func (c *crowd) makeRoom() bool {
	longest := c.idle.Front()
	if longest == nil {
		longest = c.active.Front()
		if longest == nil || time.Since(longest.Value.(place).since) < c.patience {
			return false
		}
	}
	conn := longest.Value.(place).conn
	c.remove(conn)
	conn.Close()
	return true
}

func (c *crowd) put(conn net.Conn, in *list.List) {
	c.places[conn] = in.PushBack(place{conn, time.Now(), in})
}

// remove takes a connection out, and reports whether it was in.
func (c *crowd) remove(conn net.Conn) bool {
	at, here := c.places[conn]
	if here {
		at.Value.(place).in.Remove(at)
		delete(c.places, conn)
	}
	return here
}

// note is told by the server what becomes of a connection.
func (c *crowd) note(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.remove(conn) {
		return // its place is another's
	}
	switch state {
	case http.StateNew, http.StateIdle:
		c.put(conn, c.idle)
	case http.StateActive:
		c.put(conn, c.active)
	}
}
