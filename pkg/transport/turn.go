package transport

import (
	"fmt"
	"runtime/debug"
	"time"
)

// mostBehind is how many goroutines of a connection may still be deciding or
// writing when another one goes on reading.
const mostBehind = 16

// loop reads and answers until the connection ends or its turn is over, which
// is when [conn.takeover] has found it to take long.
func (c *conn) loop() {
	for {
		n, err := c.nc.Read(c.in[c.unread:])
		c.mu.Lock()
		c.now = time.Now()
		c.heard = c.now
		c.receive(n)
		turn := c.begin()
		c.decide()
		c.flush()
		mine := c.turn == turn
		if mine {
			c.busy = false
			if err != nil {
				c.close()
			}
		} else {
			c.behind--
		}
		c.settle()
		over := !mine || c.closed
		c.mu.Unlock()
		if over {
			return
		}
	}
}

// begin notes that who reads is going to decide and write, and returns whose
// turn it is. The timer is left to fire, if it is set, since setting it costs
// more than one that fires once in a while.
func (c *conn) begin() int {
	c.busy, c.began = true, c.now
	if len(c.batch) > 0 && !c.server.options.Inline && !c.armed && !c.closed {
		c.arm(c.server.options.Takeover)
	}
	return c.turn
}

func (c *conn) arm(d time.Duration) {
	c.armed = true
	if c.timer == nil {
		c.timer = time.AfterFunc(d, c.takeover)
	} else {
		c.timer.Reset(d)
	}
}

// takeover takes the turn of a goroutine that has been deciding or writing for
// long, and reads.
func (c *conn) takeover() {
	c.mu.Lock()
	c.armed = false
	least := c.server.options.Takeover
	switch {
	case c.closed || !c.busy:
	case time.Since(c.began) < least:
		c.arm(least - time.Since(c.began))
	case c.behind >= mostBehind:
		c.arm(least)
	default:
		c.turn++
		c.behind++
		c.busy = false
		c.mu.Unlock()
		c.loop()
		return
	}
	c.mu.Unlock()
}

// decide has the handler answer the batch, and appends the replies. It gives up
// mu while the handler works.
func (c *conn) decide() {
	batch := c.batch
	if len(batch) == 0 || c.closed {
		return
	}
	c.batch, c.spare = c.spare[:0], nil
	live := batch[:0]
	for _, call := range batch {
		switch {
		case call.gone:
			c.server.metrics.reset.Inc()
			c.free(call)
		case !call.Deadline.IsZero() && !c.now.Before(call.Deadline):
			c.server.metrics.late.Inc()
			call.batched = false
			c.refuse(call, problemDeadline)
		default:
			live = append(live, call)
		}
	}
	if len(live) > 0 {
		c.decideTogether(c.setApart(live, c.now))
	}
	clear(batch)
	c.spare = batch[:0]
}

// decideTogether has the handler answer calls. It gives up mu meanwhile.
func (c *conn) decideTogether(calls []*Call) {
	c.mu.Unlock()
	failed := c.server.handle(c, calls)
	c.mu.Lock()
	for _, call := range calls {
		if failed {
			call.problem = problemPanic
		}
		if call.Sent != nil {
			c.sent = append(c.sent, call.Sent)
		}
		c.answer(call)
	}
	c.server.metrics.answered.Add(float64(len(calls)))
	c.calmDown(len(calls))
}

// handle calls the handler and reports whether it panicked.
func (s *Server) handle(c *conn, batch []*Call) (failed bool) {
	defer func() {
		if p := recover(); p != nil {
			failed = true
			s.panic(p)
		}
	}()
	s.options.Handler.Handle(c.ctx, batch)
	return false
}

// panic logs a panic, at most one a second.
func (s *Server) panic(p any) {
	s.metrics.panics.Inc()
	now := time.Now().Unix()
	if s.panicked.Swap(now) != now {
		s.options.Logger.Error("panic while handling a call", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	}
}
