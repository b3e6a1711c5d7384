package transport

import (
	"time"

	"golang.org/x/net/http2"
)

// tend looks at all connections again and again, until stop is closed. So what
// takes long costs those that are quick nothing, and a connection needs no
// timers.
func (s *Server) tend(stop <-chan struct{}) {
	ticker := time.NewTicker(s.options.tick())
	defer ticker.Stop()
	patience := s.options.WriteTimeout
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
		}
		s.mu.Lock()
		conns := s.all()
		s.mu.Unlock()
		held := 0
		for _, c := range conns {
			held += c.tend(time.Now(), patience)
		}
		patience = s.options.WriteTimeout
		if held > s.options.MaxHeld {
			patience = min(patience, haste)
		}
	}
}

// haste is how long a client may take to go on when all clients together have
// more kept for them than they may.
const haste = time.Second

// tend does what the time asks for, for a client that may take so long to go on
// with what it has begun. It returns about how many bytes are kept for it.
func (c *conn) tend(now time.Time, patience time.Duration) (held int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return 0
	}
	c.now = now
	o := &c.server.options
	switch {
	case !c.settled && now.Sub(c.opened) > o.HandshakeTimeout,
		!c.settled && c.drainEarly && now.Sub(c.drainSince) > settleTimeout,
		c.writing && now.Sub(c.wroteAt) > patience,
		c.blockHead.stream != 0 && now.Sub(c.heard) > patience,
		!c.pinged.IsZero() && now.Sub(c.pinged) > o.KeepaliveTimeout && c.heard.Before(c.pinged),
		c.draining != running && now.Sub(c.drainSince) > o.ConnectionGrace:
		c.server.metrics.cutOff.Inc()
		c.close()
		return 0
	}
	if !c.pinged.IsZero() && !c.heard.Before(c.pinged) {
		c.pinged = time.Time{}
	}
	if c.settled && c.pinged.IsZero() && !c.failed && now.Sub(c.heard) > o.KeepaliveTime {
		c.pinged = now
		c.out = appendPing(c.out, 0, make([]byte, 8))
	}
	if c.age > 0 && now.Sub(c.opened) > c.age {
		c.drain("the connection is old")
	}
	if c.draining == asked && now.Sub(c.drainSince) > drainTimeout {
		c.lastCall()
	}
	c.expire(now, patience)
	c.trim(now)
	if c.busy && now.Sub(c.began) > time.Second && !c.armed {
		c.arm(1)
	}
	if len(c.out) > 0 && !c.writing {
		go c.push()
	}
	return streamSize*len(c.streams) + len(c.out) + c.unsent + int(c.buffered)
}

// streamSize is about what an open stream takes, without its message and reply.
const streamSize = 512

// expire ends streams that the client leaves unfinished, or does not take the
// answer of, for longer than a client can be thought to wait: the patience, and
// unless memory runs short the time that it gave itself.
func (c *conn) expire(now time.Time, patience time.Duration) {
	for _, call := range c.streams {
		stuck := !call.ended || len(call.rest) > 0
		most := patience
		if patience == c.server.options.WriteTimeout {
			most += min(call.allowed, time.Minute)
		}
		if stuck && call.other == nil && now.Sub(call.opened) > most {
			c.reset(call, http2.ErrCodeCancel)
		}
	}
}

// trim lets go of buffers that a silent client does not need.
func (c *conn) trim(now time.Time) {
	if now.Sub(c.heard) < c.server.options.WriteTimeout || c.busy || c.blockHead.stream != 0 {
		return
	}
	c.spare, c.spareOut, c.block, c.fields, c.sameBlock = nil, nil, nil, nil, nil
	if len(c.out) == 0 {
		c.out = nil
	}
	if len(c.streams) == 0 {
		c.streams = map[uint32]*Call{} // one that has grown stays large
	}
}
