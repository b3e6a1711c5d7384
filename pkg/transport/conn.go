package transport

import (
	"bytes"
	"container/list"
	"context"
	"net"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const (
	smallBuffer = 4 << 10  // read at once from a client that has said little so far
	largeBuffer = 64 << 10 // and from one that has filled the buffer
)

// conn is a connection.
type conn struct {
	server *Server
	nc     net.Conn
	ctx    context.Context // ends with the connection
	cancel context.CancelFunc
	timer  *time.Timer // runs takeover

	stranger *list.Element // in the server's, whose mu guards it; nil: the preface has arrived

	// Owned by the goroutine whose turn it is to read.
	in     []byte // what has been read
	unread int    // in[:unread] is the beginning of a frame

	mu  sync.Mutex // guards all that follows
	now time.Time  // of the last look at the clock

	// Reading.
	greeted   bool // the preface has arrived
	settled   bool // the client's first SETTINGS have arrived
	failed    bool // GOAWAY with an error was sent: what still arrives is thrown away
	lingering bool // nothing will be written any more: waiting for the client to close
	closed    bool
	opened    time.Time // when the connection was accepted
	heard     time.Time // when something was last read
	pinged    time.Time // when a keepalive PING was sent that nothing has answered yet; zero: none

	// Header blocks.
	decoder   *hpack.Decoder
	header    func(name string) string // field, made once
	fields    []hpack.HeaderField      // of the last block that was decoded
	listSize  int                      // of the block that is being decoded
	block     []byte                   // of a block without END_HEADERS, what has arrived
	blockHead frame                    // and the HEADERS frame that began it, without payload; stream 0: none
	sameBlock []byte                   // a block that decodes to same, until another one is decoded; empty: none
	same      head

	// Streams.
	streams  map[uint32]*Call // those that are open
	latest   *Call            // the stream that was opened last, if it is open
	maxID    uint32           // of the streams that were opened; odd, or 0
	closings closings         // how the latest streams ended
	others   int              // streams with another method
	buffered int64            // bytes of incomplete messages

	// Turns.
	batch  []*Call // calls that are complete
	spare  []*Call // an empty batch, to be used again
	turn   int     // whose turn it is to read
	busy   bool    // who has the turn decides or writes
	began  time.Time
	armed  bool // timer will fire
	behind int  // goroutines that decide or write although their turn is over

	// Writing.
	out       []byte   // frames to be written
	spareOut  []byte   // an empty buffer, to be used again
	sent      []func() // Call.Sent of replies that are in out, or given up
	writing   bool     // somebody writes, and will write out too
	wroteAt   time.Time
	table     table
	unsent    int   // Σ len(rest) of streams
	inWindow  int64 // bytes of DATA since our last WINDOW_UPDATE
	outWindow int64 // bytes of DATA that the client takes; above 0 unless waiting is not empty
	initial   int64 // the client's window for a new stream
	waiting   []*Call
	room      sync.Cond // outWindow, a stream's window or out has changed, or a stream is gone

	patience   int64     // see patience.go
	patienceAt time.Time // when it was last filled up

	draining   drainState
	drainEarly bool // it is to be drained once it is settled
	drainSince time.Time
	age        time.Duration // after which to drain; 0: never
}

func newConn(s *Server, nc net.Conn) *conn {
	now := time.Now()
	c := &conn{
		server: s, nc: nc,
		in:  make([]byte, smallBuffer),
		now: now, opened: now, heard: now, patienceAt: now,
		streams:   map[uint32]*Call{},
		table:     table{size: tableSize},
		outWindow: 1<<16 - 1, initial: 1<<16 - 1,
		patience: mostPatience,
		age:      jitter(s.options.ConnectionAge),
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.room.L = &c.mu
	c.decoder = hpack.NewDecoder(tableSize, c.emit)
	c.header = c.field
	c.decoder.SetMaxStringLength(s.options.MaxHeaderList)
	return c
}

// receive takes in n bytes that were read.
func (c *conn) receive(n int) {
	b := c.in[:c.unread+n]
	full := len(b) == len(c.in)
	for c.greet(&b) && !c.failed && !c.closed {
		f, length, complete := splitFrame(b)
		if length > maxFrame {
			c.fail(http2.ErrCodeFrameSize, "frame too large")
		}
		if !complete {
			break
		}
		b = b[frameHeader+length:]
		c.dispatch(&f)
	}
	if c.failed || c.closed {
		b = nil
	}
	if full && len(c.in) < largeBuffer {
		c.in = make([]byte, min(4*len(c.in), largeBuffer))
	}
	c.unread = copy(c.in, b)
}

// greet reports whether the client's preface has arrived, and takes it off b.
func (c *conn) greet(b *[]byte) bool {
	if c.greeted {
		return true
	}
	n := min(len(*b), len(preface))
	if string((*b)[:n]) != preface[:n] {
		c.close() // it does not speak HTTP/2, so it would not understand GOAWAY
		return false
	}
	if n < len(preface) {
		return false
	}
	*b = bytes.TrimPrefix(*b, []byte(preface))
	c.greeted = true
	c.server.meet(c)
	c.out = appendSettings(c.out,
		http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: uint32(c.server.options.MaxStreams)},
		http2.Setting{ID: http2.SettingInitialWindowSize, Val: streamWindow},
		http2.Setting{ID: http2.SettingMaxHeaderListSize, Val: uint32(c.server.options.MaxHeaderList)},
	)
	c.out = appendWindowUpdate(c.out, 0, connWindow-(1<<16-1))
	return true
}

// linger is how long a client may take to close a connection that has nothing
// to say to it any more.
const linger = time.Second

// fail ends the connection for an error of the client's: it sends GOAWAY and
// throws away what still arrives. Calls that were complete are still answered.
func (c *conn) fail(code http2.ErrCode, why string) {
	if c.failed || c.closed {
		return
	}
	c.failed = true
	c.server.metrics.goaway(code)
	c.out = appendGoAway(c.out, c.maxID, code, why)
	c.readUntil(c.now.Add(linger))
}

// readUntil has reading fail after an instant.
func (c *conn) readUntil(end time.Time) {
	if err := c.nc.SetReadDeadline(end); err != nil {
		c.close()
	}
}

// settle ends a connection that has nothing more to write: it closes our side
// and gives the client a moment to close its own, for a connection that is
// closed with bytes unread is reset, and what was written may be lost.
func (c *conn) settle() {
	over := c.failed && !c.busy && c.behind == 0 || c.draining == drained && len(c.streams) == 0
	if !over || c.lingering || c.closed || c.writing || len(c.out) > 0 {
		return
	}
	c.lingering, c.failed = true, true
	c.readUntil(time.Now().Add(linger))
	if half, ok := c.nc.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() // if it fails, the client is gone
	}
}

// close ends the connection at once.
func (c *conn) close() {
	if c.closed {
		return
	}
	c.closed = true
	c.server.metrics.closed.Inc()
	c.cancel()
	c.nc.Close()
	if c.timer != nil {
		c.timer.Stop()
	}
	for _, call := range c.streams {
		c.drop(call, clientReset)
		c.recycle(call)
	}
	c.out, c.spareOut, c.batch, c.spare = nil, nil, nil, nil
	c.room.Broadcast()
	c.server.remove(c)
}
