package transport

import (
	"cmp"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Options say what a [Server] serves and how much a client may take. Method and
// Handler are required; every other zero value means the default named beside
// it.
type Options struct {
	// Method is the full path of the method that Handler answers, as in
	// "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit".
	Method string

	// Handler answers the calls of Method.
	Handler Handler

	// Other answers calls of any other method, each in its own goroutine, and
	// those whose message is compressed. It sees requests as net/http's HTTP/2
	// server would show them; *grpc.Server is such a handler. nil means that
	// they are answered UNIMPLEMENTED.
	Other http.Handler

	// Mark gives a call its Mark, from its headers: header returns the value of
	// one, "" if there is none, and with commas between them if there are
	// several; names are in lower case. It is called once for requests with the
	// same headers that follow each other, so it must depend on nothing else.
	// nil means nil.
	Mark func(header func(name string) string) any

	// Takeover is how long the goroutine that reads a connection may take to
	// decide and to write before another one goes on reading. 1 ms.
	Takeover time.Duration

	// Inline means that Handler never waits for anything. Another goroutine then
	// goes on reading only when writing stalls, after a second.
	Inline bool

	// MaxMessage is the longest request message, in bytes. A longer one is not
	// kept; its call is marked TooLarge. 64 MiB.
	MaxMessage int

	// MaxBuffered bounds the bytes of incomplete request messages that are kept
	// for one connection; for all connections together they are at most four
	// times as many. A message that does not fit is TooLarge. MaxMessage + 1 MiB.
	MaxBuffered int

	// MaxUnsent bounds the bytes of replies that a client does not take. One
	// that has more waiting is cut off. 16 MiB.
	MaxUnsent int

	// MaxConnections is how many connections may be open. A further one takes the
	// place of the one that has said nothing for the longest, or is closed at once.
	// 4,096.
	MaxConnections int

	// MaxHeld is about how many bytes may be kept for all clients together: open
	// streams, unfinished requests, and replies that they do not take. Beyond
	// that those are cut off that do not go on for a second. 128 MiB.
	MaxHeld int

	// MaxStreams is the number of streams that a client may have open. 4,096.
	// At most 128 of them can be for Other, and 4,096 of all clients together.
	MaxStreams int

	// MaxHeaderList bounds the headers of a request: the sum of names, values,
	// and 32 for each. A larger request is answered RESOURCE_EXHAUSTED. 64 KiB.
	MaxHeaderList int

	// HandshakeTimeout is how long a client may take until its first SETTINGS
	// have arrived, TLS included. 10 s.
	HandshakeTimeout time.Duration

	// WriteTimeout is how long a client may take nothing of what is written to
	// it before it is cut off. 10 s.
	WriteTimeout time.Duration

	// KeepaliveTime is after how long without a byte a client is pinged, and
	// KeepaliveTimeout after how much longer it is cut off. 1 min, 20 s.
	KeepaliveTime, KeepaliveTimeout time.Duration

	// ConnectionAge is after how long a client is asked to use another
	// connection, give or take a tenth; ConnectionGrace is how long its calls
	// may still take then. 0 means never, and 1 h.
	ConnectionAge, ConnectionGrace time.Duration

	// Logger is told, at most once a second, of what is a fault of this program.
	// [slog.Default].
	Logger *slog.Logger

	// Registerer gets the metrics. nil means that nobody reads them.
	Registerer prometheus.Registerer
}

// How many streams Other may serve at a time, of one connection and of all.
const (
	maxOther  = 128
	maxOthers = 4096
)

func (o *Options) setDefaults() {
	o.Takeover = cmp.Or(o.Takeover, time.Millisecond)
	o.MaxMessage = cmp.Or(o.MaxMessage, 64<<20)
	o.MaxBuffered = cmp.Or(o.MaxBuffered, o.MaxMessage+1<<20)
	o.MaxUnsent = cmp.Or(o.MaxUnsent, 16<<20)
	o.MaxConnections = cmp.Or(o.MaxConnections, 4<<10)
	o.MaxHeld = cmp.Or(o.MaxHeld, 128<<20)
	o.MaxStreams = cmp.Or(o.MaxStreams, 4<<10)
	o.MaxHeaderList = cmp.Or(o.MaxHeaderList, 64<<10)
	o.HandshakeTimeout = cmp.Or(o.HandshakeTimeout, 10*time.Second)
	o.WriteTimeout = cmp.Or(o.WriteTimeout, 10*time.Second)
	o.KeepaliveTime = cmp.Or(o.KeepaliveTime, time.Minute)
	o.KeepaliveTimeout = cmp.Or(o.KeepaliveTimeout, 20*time.Second)
	o.ConnectionGrace = cmp.Or(o.ConnectionGrace, time.Hour)
	o.Logger = cmp.Or(o.Logger, slog.Default())
}

// tick is how often connections are looked at: often enough for the shortest of
// the times, and not more often than the machine notices.
func (o *Options) tick() time.Duration {
	shortest := min(o.HandshakeTimeout, o.WriteTimeout, o.KeepaliveTime, o.KeepaliveTimeout, o.ConnectionGrace)
	if o.ConnectionAge > 0 {
		shortest = min(shortest, o.ConnectionAge)
	}
	return min(max(shortest/8, 10*time.Millisecond), time.Second)
}
