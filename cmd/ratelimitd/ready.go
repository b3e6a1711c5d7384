package main

import (
	"context"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/ratelimitd/ratelimitd/pkg/reload"
	"github.com/ratelimitd/ratelimitd/pkg/settings"
	"github.com/ratelimitd/ratelimitd/pkg/web"
)

// readiness knows whether requests should be sent here.
type readiness struct {
	mode     string // of settings.Readiness
	policies func() reload.Status
	store    func() error // nil: the store answers

	contacted atomic.Bool // the store has answered once
	draining  atomic.Bool // the program was told to stop
}

// health says whether the program is ready, and what is wrong.
func (r *readiness) health() web.Health {
	policies, store := r.policies(), r.store()
	if store == nil {
		r.contacted.Store(true)
	}
	switch {
	case r.draining.Load():
		return web.Health{Reason: "not ready: stopping"}
	case policies.Rules == nil && policies.Err != nil:
		return web.Health{Reason: "not ready: no policy is in force:\n" + policies.Err.Error()}
	case policies.Rules == nil:
		return web.Health{Reason: "not ready: no policy is in force yet"}
	case store != nil && (r.mode == settings.ReadyWithStore || r.mode == settings.ReadyWithFirstContact && !r.contacted.Load()):
		return web.Health{Reason: "not ready: " + store.Error()}
	}
	h := web.Health{Ready: true}
	if store != nil {
		h.Reason = "degraded: " + store.Error()
	}
	if policies.Err != nil {
		if h.Reason != "" {
			h.Reason += "\n"
		}
		h.Reason += "degraded: the last change of the policies was refused; the rules from before stay in force:\n" + policies.Err.Error()
	}
	return h
}

// healthEvery is how often the gRPC health service is told.
const healthEvery = 100 * time.Millisecond

// rateLimitHealth is the name under which gRPC clients ask for readiness. The
// empty name tells that the process lives and is not stopping.
const rateLimitHealth = "ratelimit"

// tell keeps the gRPC health service up to date until ctx is done.
func (r *readiness) tell(ctx context.Context, server *health.Server) {
	tick := time.NewTicker(healthEvery)
	defer tick.Stop()
	for {
		r.tellOnce(server)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (r *readiness) tellOnce(server *health.Server) {
	status := healthpb.HealthCheckResponse_NOT_SERVING
	if r.health().Ready {
		status = healthpb.HealthCheckResponse_SERVING
	}
	server.SetServingStatus(rateLimitHealth, status)
}

// drain makes the program unready, for good.
func (r *readiness) drain(server *health.Server) {
	r.draining.Store(true)
	server.Shutdown() // every name is NOT_SERVING from now on
}
