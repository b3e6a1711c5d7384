package backend

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/redis/go-redis/v9"
)

const (
	// clockJump is by how much more or less a server's clock must have moved on
	// than this process's between two looks, for a jump.
	clockJump = 500 * time.Millisecond

	// clockFar is by how much both may differ at any instant.
	clockFar = 5 * time.Second

	// forgetServer is how long after the last look a server is forgotten that
	// is no longer part of a Cluster.
	forgetServer = time.Minute
)

// inspector looks for what would spoil counts unseen: servers that drop keys in
// use when their memory is full, and clocks that jump or are wrong. What it
// finds it tells once.
type inspector struct {
	log        *slog.Logger
	evicting   prometheus.Gauge
	jumps      prometheus.Counter
	difference prometheus.Gauge

	mu      sync.Mutex // protects what follows
	servers map[string]*server
}

// server is what an inspector knows of one.
type server struct {
	visited  time.Time
	eviction string // the policy, if it drops what is in use
	clock    clock
}

func newInspector(reg prometheus.Registerer, log *slog.Logger) *inspector {
	return &inspector{
		log:     log,
		servers: make(map[string]*server),
		evicting: promauto.With(reg).NewGauge(prometheus.GaugeOpts{
			Name: "ratelimitd_redis_evicting",
			Help: "Redis servers whose maxmemory-policy drops counters that are in use when their memory is full.",
		}),
		jumps: promauto.With(reg).NewCounter(prometheus.CounterOpts{
			Name: "ratelimitd_redis_clock_jumps_total",
			Help: "Times that the clock of a Redis server was found to have jumped, or another server with another clock to have taken its place.",
		}),
		difference: promauto.With(reg).NewGauge(prometheus.GaugeOpts{
			Name: "ratelimitd_redis_clock_difference_seconds",
			Help: "How far the clock of Redis is ahead of this process's, or behind if negative; of a Cluster the server that is furthest off.",
		}),
	}
}

// visit asks a server what it does and what time it has. It is no reason for a
// failure that it does not tell: it may forbid to ask.
func (i *inspector) visit(ctx context.Context, address string, node redis.Cmdable) {
	pipe := node.Pipeline()
	theirs, memory := pipe.Time(ctx), pipe.InfoMap(ctx, "memory") // INFO, since many a host forbids CONFIG
	began := time.Now()
	_, _ = pipe.Exec(ctx) // each has its own error
	ended := time.Now()

	i.mu.Lock()
	defer i.mu.Unlock()
	s := i.servers[address]
	if s == nil {
		s = new(server)
		i.servers[address] = s
	}
	s.visited = ended
	log := i.log
	if address != "" {
		log = log.With("server", address)
	}
	if memory.Err() == nil {
		s.seeMemory(memory.Val()["Memory"], log)
	}
	if theirs.Err() == nil {
		s.clock.see(began, ended, theirs.Val(), i.jumps, log)
	}
	i.show()
}

// forget drops the servers that were not visited for long and returns their
// addresses.
func (i *inspector) forget(now time.Time) (gone []string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for address, s := range i.servers {
		if now.Sub(s.visited) > forgetServer {
			delete(i.servers, address)
			gone = append(gone, address)
		}
	}
	i.show()
	return gone
}

// show brings the metrics up to date.
func (i *inspector) show() {
	evicting, furthest := 0, time.Duration(0)
	for _, s := range i.servers {
		if s.eviction != "" {
			evicting++
		}
		if s.clock.ahead.Abs() > furthest.Abs() {
			furthest = s.clock.ahead
		}
	}
	i.evicting.Set(float64(evicting))
	i.difference.Set(furthest.Seconds())
}

// seeMemory tells when a server begins or ends to drop keys in use: then a
// limit begins anew, and nobody would see why.
func (s *server) seeMemory(memory map[string]string, log *slog.Logger) {
	policy := memory["maxmemory_policy"]
	if memory["maxmemory"] == "0" || policy == "noeviction" {
		policy = ""
	}
	if policy == s.eviction {
		return
	}
	if s.eviction = policy; policy == "" {
		log.Info("redis no longer drops counters that are in use")
		return
	}
	log.Warn("redis drops counters that are in use when its memory is full: set maxmemory-policy to noeviction",
		"maxmemory_policy", policy)
}

// clock is what is known of a server's clock. The zero value has not seen it.
type clock struct {
	ours, theirs time.Time     // at the last look
	doubt        time.Duration // by how much ours may be wrong
	ahead        time.Duration
	far          bool
}

// see takes note of what a server's clock said at some instant between two of
// this process's. Jumps are told by how far both have moved on, for which this
// process has a clock that never jumps.
func (c *clock) see(began, ended, theirs time.Time, jumps prometheus.Counter, log *slog.Logger) {
	doubt := ended.Sub(began) / 2
	ours := began.Add(doubt)
	if !c.ours.IsZero() {
		jump := theirs.Sub(c.theirs) - ours.Sub(c.ours)
		if jump.Abs() > clockJump+doubt+c.doubt {
			jumps.Inc()
			log.Warn("the clock of redis has jumped, and the windows of limits with it: let NTP slew it", "by", jump.Round(time.Millisecond))
		}
	}
	c.ours, c.theirs, c.doubt = ours, theirs, doubt
	c.ahead = theirs.Sub(ours.Round(0)) // by the clocks on the wall
	switch far := c.ahead.Abs() > clockFar+doubt; {
	case far && !c.far:
		log.Warn("the clock of redis is not that of this machine: let NTP keep both", "ahead", c.ahead.Round(time.Millisecond))
		c.far = true
	case c.far && !far:
		log.Info("the clock of redis is that of this machine again")
		c.far = false
	}
}
