package backend

import (
	"context"
	"net"
	"sync/atomic"
	"syscall"

	"github.com/redis/go-redis/v9"
)

// Connections are those to the servers of a store since it was opened. What was
// opened and not closed is open. Connections to sentinels are not among them.
type Connections struct{ Opened, Closed uint64 }

// Connections returns how many connections there were until now.
func (r *Redis) Connections() Connections {
	closed := r.connections.closed.Load() // first: what was closed was opened before
	return Connections{Opened: r.connections.opened.Load(), Closed: closed}
}

// connections is a hook of go-redis that counts what is opened and closed, which
// go-redis itself does not tell. The zero value has counted nothing.
type connections struct{ opened, closed atomic.Uint64 }

func (c *connections) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := next(ctx, network, address)
		if err != nil {
			return nil, err
		}
		c.opened.Add(1)
		counted := &countedConn{Conn: conn, count: &c.closed}
		if raw, ok := conn.(syscall.Conn); ok {
			return &countedSocket{countedConn: counted, Conn: raw}, nil
		}
		return counted, nil
	}
}

func (c *connections) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (c *connections) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// countedConn counts when it is closed.
type countedConn struct {
	net.Conn
	count  *atomic.Uint64
	closed atomic.Bool
}

func (c *countedConn) Close() error {
	if c.closed.CompareAndSwap(false, true) {
		c.count.Add(1)
	}
	return c.Conn.Close()
}

// countedSocket is one that shows its socket: go-redis looks there whether an idle
// connection is still good.
type countedSocket struct {
	*countedConn
	syscall.Conn
}
