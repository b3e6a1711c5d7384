package transport

import "time"

// flush writes what is to be written, unless somebody does already, who will
// take this along. It gives up mu while it writes. A client that leaves too much
// unread is cut off.
func (c *conn) flush() {
	if len(c.out)+c.unsent > c.server.options.MaxUnsent && !c.closed {
		c.server.metrics.cutOff.Inc()
		c.close()
	}
	if c.writing {
		return
	}
	for len(c.out) > 0 && !c.closed {
		b, sent := c.out, c.sent
		c.out, c.spareOut, c.sent = c.spareOut[:0], nil, nil
		c.writing, c.wroteAt = true, c.now
		c.mu.Unlock()
		_, err := c.nc.Write(b)
		tell(sent)
		c.mu.Lock()
		c.writing = false
		if err != nil {
			c.close()
			break
		}
		if cap(b) <= largeBuffer {
			c.spareOut = b[:0]
		}
		if c.others > 0 {
			c.room.Broadcast()
		}
	}
	tell(c.sent)
	c.sent = nil
}

// tell calls what waits for replies to be sent.
func tell(sent []func()) {
	for _, f := range sent {
		f()
	}
}

// push writes what is to be written, in its own time.
func (c *conn) push() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = time.Now()
	c.flush()
	c.settle()
}
