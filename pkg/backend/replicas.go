package backend

import (
	"cmp"
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/redis/go-redis/v9"
)

const (
	// beatEvery is how often a process says that it is there, and beatTimeout
	// how long it waits for Redis to take note.
	beatEvery   = time.Second
	beatTimeout = time.Second

	// goneAfter is how long a process that says nothing counts as there.
	goneAfter = 10 * time.Second

	// replicasKey holds the processes. In a Cluster it lies in one slot; while
	// its node is away the count stays as it was.
	replicasKey = "{ratelimitd}replicas"
)

// heartbeatLua needs no right that counters do not need.
//
//go:embed heartbeat.lua
var heartbeatLua string

// ReplicasOptions are the settings of [Replicas]. The zero value is usable.
type ReplicasOptions struct {
	// Unmet is how many replicas there are taken to be before Redis has told; 0
	// is one.
	Unmet int

	// Registerer takes the metrics; nil keeps them unregistered.
	Registerer prometheus.Registerer

	// Log takes a line, at most one a minute, when Redis answers and yet takes
	// no note of this process; nil is slog.Default.
	Log *slog.Logger
}

// Replicas knows how many processes share a Redis: each says in it once a second
// that it is there, and counts for ten seconds after that. Those who share its
// database count, whatever policies they have.
//
// While Redis is away the count stays as it was. It grows at once, and shrinks
// only when fewer were seen for ten seconds: after an outage that has cost Redis
// its memory the others are still there, though they have not said so yet.
type Replicas struct {
	redis  *Redis
	id     [16]byte
	unmet  int
	count  atomic.Int64 // 0: Redis has not told yet
	heads  headcount    // of the goroutine
	log    *sparingLog
	stop   context.CancelFunc
	ending chan struct{}
}

// JoinReplicas has this process counted until Close.
func JoinReplicas(r *Redis, o ReplicasOptions) *Replicas {
	ctx, cancel := context.WithCancel(context.Background())
	p := &Replicas{
		redis: r, unmet: cmp.Or(max(0, o.Unmet), 1), log: newSparingLog(o.Log, time.Minute), stop: cancel, ending: make(chan struct{}),
	}
	_, _ = rand.Read(p.id[:]) // it never fails
	promauto.With(o.Registerer).NewGaugeFunc(prometheus.GaugeOpts{
		Name: "ratelimitd_replicas",
		Help: "Processes that share Redis, as far as is known; limits with on_store_error local are shared out among them.",
	}, func() float64 { return float64(p.Count()) })
	go p.run(ctx)
	return p
}

// Count is how many processes there are, this one among them: at least 1. It
// asks nobody.
func (p *Replicas) Count() int {
	if n := p.count.Load(); n > 0 {
		return int(n)
	}
	return p.unmet
}

// Close has Redis forget this process, if it is there.
func (p *Replicas) Close() {
	p.stop()
	<-p.ending
	if p.redis.Ready() == nil {
		ctx, cancel := context.WithTimeout(context.Background(), beatTimeout)
		defer cancel()
		_, _ = p.beat(ctx, false) // else it is forgotten in ten seconds
	}
}

func (p *Replicas) run(ctx context.Context) {
	defer close(p.ending)
	timer := time.NewTicker(beatEvery)
	defer timer.Stop()
	for {
		asking, cancel := context.WithTimeout(ctx, beatTimeout)
		n, err := p.beat(asking, true)
		cancel()
		switch {
		case err == nil:
			p.count.Store(int64(p.heads.saw(n, time.Now())))
		case ctx.Err() == nil:
			p.heads.missed()
			if refused := (redis.Error)(nil); errors.As(err, &refused) && p.redis.Ready() == nil {
				p.log.Warn("redis takes no note of this replica, so that others do not count it", "reason", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
	}
}

// beat says that this process is there, or that it leaves, and returns how many
// are there.
func (p *Replicas) beat(ctx context.Context, there bool) (int, error) {
	word := "0"
	if there {
		word = "1"
	}
	n, err := p.redis.client.Eval(ctx, heartbeatLua, []string{replicasKey}, p.id[:], word, goneAfter.Milliseconds()).Int()
	if err != nil {
		return 0, fmt.Errorf("heartbeat: %w", err)
	}
	return n, nil
}

// headcount is how many there are, by how many were seen. The zero value has
// seen nobody.
type headcount struct {
	known int
	fewer int       // the most seen since
	since time.Time // zero: the last time no fewer than known were seen
}

// saw takes note of how many are seen at an instant, and returns how many there
// are.
func (h *headcount) saw(n int, now time.Time) int {
	switch {
	case n >= h.known:
		h.known, h.since = n, time.Time{}
	case h.since.IsZero():
		h.fewer, h.since = n, now
	default:
		if h.fewer = max(h.fewer, n); now.Sub(h.since) >= goneAfter {
			h.known, h.since = h.fewer, time.Time{}
		}
	}
	return h.known
}

// missed takes note that nobody could be seen.
func (h *headcount) missed() { h.since = time.Time{} }
