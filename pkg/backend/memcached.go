package backend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// MemcachedOptions are the settings of a [Memcached]. Only Servers or SRV is
// needed.
type MemcachedOptions struct {
	// Servers are host:port, or paths of unix sockets that begin with "/". All
	// processes that share counts need the same ones, in any order.
	Servers []string

	// SRV is a DNS name whose SRV records list the servers, in place of Servers.
	// It is asked for again after SRVRefresh; 0 is never, once it was answered.
	SRV        string
	SRVRefresh time.Duration

	// Resolver asks for SRV; nil is the system's.
	Resolver Resolver

	// TLS encrypts connections; nil does not.
	TLS *TLS

	// Timeout bounds a call where the context's deadline does not do so earlier; 0
	// is DefaultReadTimeout. DialTimeout bounds the making of a connection; 0 is
	// DefaultDialTimeout.
	Timeout, DialTimeout time.Duration

	// Budget is what a call may take before it counts as failed; 0 is Timeout.
	Budget time.Duration

	// Connections is how many connections to each server are kept, and how many
	// charges travel at once; 0, as what is less, is DefaultConnections.
	Connections int

	// Registerer takes the metrics; nil keeps them unregistered.
	Registerer prometheus.Registerer

	// Log takes changes of readiness and of the servers, and at most one line a
	// second about calls that failed; nil is slog.Default.
	Log *slog.Logger
}

// DefaultConnections is how many connections a [Memcached] keeps to each server
// when its options do not say.
const DefaultConnections = 16

// Memcached is a store in memcached servers, shared by many processes. Servers
// only keep states: this process reads them, decides, and writes what has changed
// on the condition that nobody else has written since. What fails on that is read
// and decided anew, so that no limit is ever exceeded, however many processes ask.
//
// The clock is this process' own. A server forgets counters when it is full or
// ends: those begin anew.
//
// Each server has a lane with one batch under way, so that the requests of one
// process never stand in each other's way. A request that meets several counters
// is charged all or nothing, as in a Redis Cluster: what was charged of one that
// turns out not to pass is given back.
type Memcached struct {
	options MemcachedOptions
	dial    func(ctx context.Context, network, address string) (net.Conn, error)
	servers atomic.Pointer[memcachedServers]
	looking *lookups
	strain  atomic.Int64 // the sum of the lanes'
	metrics *memcachedMetrics
	log     *slog.Logger
	health  *health
	returns *returns
	failing *sparingLog
}

// NewMemcached returns a store that connects when there is something to connect
// to: that servers are absent is no error. An error means options that cannot
// work.
func NewMemcached(o MemcachedOptions) (*Memcached, error) {
	o = o.withDefaults()
	m := &Memcached{options: o, metrics: newMemcachedMetrics(o.Registerer), log: o.Log.With("store", "memcached")}
	m.failing = newSparingLog(m.log, time.Second)
	m.returns = newReturns(o.Timeout, m.metrics.undos, m.failing)
	switch {
	case len(o.Servers) > 0 && o.SRV != "":
		return nil, errors.New("memcached: both servers and a name of SRV records are given; one of them says where memcached is")
	case len(o.Servers) == 0 && o.SRV == "":
		return nil, errors.New("memcached: no server is given")
	}
	m.dial = (&net.Dialer{Timeout: o.DialTimeout}).DialContext
	if o.TLS != nil {
		secure, err := newSecureDialer(*o.TLS, o.DialTimeout, o.Log)
		if err != nil {
			return nil, fmt.Errorf("memcached: %w", err)
		}
		m.dial = secure.dial
	}
	m.servers.Store(&memcachedServers{store: m})
	if o.SRV == "" {
		if err := m.use(o.Servers); err != nil {
			return nil, fmt.Errorf("memcached: %w", err)
		}
	}
	showBreakers(o.Registerer, "memcached", m.breakersShut)
	m.looking = m.lookUp()
	m.health = watch(m.connect, m.metrics.up, m.log)
	return m, nil
}

func (o MemcachedOptions) withDefaults() MemcachedOptions {
	o.Timeout = cmp.Or(max(0, o.Timeout), DefaultReadTimeout)
	o.DialTimeout = cmp.Or(max(0, o.DialTimeout), DefaultDialTimeout)
	o.Budget = cmp.Or(max(0, o.Budget), o.Timeout)
	o.Connections = max(o.Connections, DefaultConnections)
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Resolver == nil {
		o.Resolver = net.DefaultResolver
	}
	return o
}

// Close ends the store's goroutines and connections.
func (m *Memcached) Close() {
	m.looking.close()
	m.health.close()
	m.returns.close()
	for _, s := range m.servers.Load().all {
		s.close()
	}
}

// Ready reports, without asking, whether a server answered when they were last
// asked: nil, or why not. They are asked about once a second. One that answers is
// enough, since the keys of the others follow their failure policy.
func (m *Memcached) Ready() error { return m.health.ready() }

// Decide decides the asks. See [Memcached].
func (m *Memcached) Decide(ctx context.Context, asks []algorithm.Ask, out []algorithm.Decision) {
	if len(asks) == 0 {
		return
	}
	out = out[:len(asks)]
	began := time.Now()
	servers := m.servers.Load()
	if len(servers.all) > 0 {
		decideByPlace(ctx, servers, asks, out)
	} else {
		fail(out, m.looking.reason())
	}
	m.metrics.duration.Observe(time.Since(began).Seconds())
	m.metrics.report(servers, asks, out)
}

// strained and strainOf are for [Shedding].
func (m *Memcached) strained() int64 { return m.strain.Load() }

func (m *Memcached) strainOf(ctx context.Context, ask *algorithm.Ask) *strain {
	servers := m.servers.Load()
	if len(servers.all) == 0 {
		return new(strain)
	}
	return &servers.laneOf(ctx, ask.Key).strain
}

func (m *Memcached) breakersShut() int {
	n := 0
	for _, s := range m.servers.Load().all {
		if s.lane.breaker.isShut() {
			n++
		}
	}
	return n
}
