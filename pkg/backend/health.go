package backend

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// How often a server is asked whether it answers: every watchEvery when it
// does, and sooner, from watchFirst on, when it does not.
const (
	watchEvery   = time.Second
	watchFirst   = 50 * time.Millisecond
	watchTimeout = time.Second
)

// health knows whether a server answers, from a goroutine that asks it.
type health struct {
	err     atomic.Pointer[error] // of the last time; nil pointer inside: it answers
	stop    context.CancelFunc
	stopped chan struct{}
}

var errNotAsked = errors.New("the store has not answered yet")

// watch asks a server until close.
func watch(ask func(context.Context) error, up prometheus.Gauge, log *slog.Logger) *health {
	ctx, cancel := context.WithCancel(context.Background())
	h := &health{stop: cancel, stopped: make(chan struct{})}
	h.err.Store(&errNotAsked)
	go h.run(ctx, ask, up, log)
	return h
}

func (h *health) run(ctx context.Context, ask func(context.Context) error, up prometheus.Gauge, log *slog.Logger) {
	defer close(h.stopped)
	timer := time.NewTimer(0)
	defer timer.Stop()
	wait := watchFirst
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		asking, cancel := context.WithTimeout(ctx, watchTimeout)
		err := ask(asking)
		cancel()
		if ctx.Err() != nil {
			return
		}
		before := h.ready()
		h.err.Store(&err)
		if err == nil {
			up.Set(1)
			if before != nil {
				log.Info("the store answers")
			}
			wait = watchFirst
			timer.Reset(watchEvery)
			continue
		}
		up.Set(0)
		if before == nil || errors.Is(before, errNotAsked) {
			log.Warn("the store does not answer", "reason", err)
		}
		timer.Reset(wait)
		wait = min(2*wait, watchEvery)
	}
}

// ready returns nil if the server answered the last time, else why it did not.
func (h *health) ready() error { return *h.err.Load() }

func (h *health) close() {
	h.stop()
	<-h.stopped
}
