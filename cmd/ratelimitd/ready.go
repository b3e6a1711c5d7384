package main

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/ratelimitd/ratelimitd/pkg/reload"
	"github.com/ratelimitd/ratelimitd/pkg/settings"
	"github.com/ratelimitd/ratelimitd/pkg/web"
)

// needs are what the process waits for before it is ready.
type needs struct {
	policies  bool // rules in force
	anyDomain bool // rules of a domain
	contact   bool // that the store has answered once
	storeNow  bool // that the store answers
}

// needs are those of the settings.
func (m *Main) needs() needs {
	if c := m.Compat; c != nil {
		return needs{
			policies: c.NeedsFirstState || c.NeedsPolicies, anyDomain: c.NeedsPolicies,
			contact: c.NeedsFirstContact, storeNow: c.NeedsStoreAlways,
		}
	}
	return needsOf(m.Settings.Readiness)
}

func needsOf(mode string) needs {
	return needs{
		policies: mode != settings.ReadyWhenListening,
		contact:  mode == settings.ReadyWithFirstContact,
		storeNow: mode == settings.ReadyWithStore,
	}
}

// readiness knows whether requests should be sent here.
type readiness struct {
	needs    needs
	policies func() reload.Status
	store    func() error // nil: the store answers
	plane    func() error // nil: no control plane is wanted, or one is there

	contacted atomic.Bool // the store has answered once
	draining  atomic.Bool // the program was told to stop
}

// unanswered begins what is said of a store that does not answer.
const unanswered = "the store does not answer: "

// health says whether the program is ready, and what is wrong.
func (r *readiness) health() web.Health {
	policies, store := r.policies(), r.store()
	if store == nil {
		r.contacted.Store(true)
	}
	none := r.withoutPolicies(policies)
	switch {
	case r.draining.Load():
		return web.Health{Reason: "not ready: stopping"}
	case none != "" && r.needs.policies:
		return web.Health{Reason: "not ready: " + none}
	case store != nil && r.needsStore():
		return web.Health{Reason: "not ready: " + unanswered + store.Error()}
	}
	var wrong []string
	if store != nil {
		wrong = append(wrong, "degraded: "+unanswered+store.Error())
	}
	if none != "" {
		wrong = append(wrong, "degraded: "+none)
	} else {
		wrong = append(wrong, r.outdated(policies)...)
	}
	return web.Health{Ready: true, Reason: strings.Join(wrong, "\n")}
}

func (r *readiness) needsStore() bool {
	return r.needs.storeNow || r.needs.contact && !r.contacted.Load()
}

// withoutPolicies says why no policy is in force; empty: some are.
func (r *readiness) withoutPolicies(policies reload.Status) string {
	if policies.Rules != nil && (len(policies.Rules.Domains()) > 0 || !r.needs.anyDomain) {
		return ""
	}
	text := "no policy is in force yet"
	if policies.Err != nil {
		text = "no policy is in force:\n" + policies.Err.Error()
	}
	if err := r.plane(); err != nil {
		text += "\n" + err.Error()
	}
	return text
}

// outdated says why the policies in force may not be the newest.
func (r *readiness) outdated(policies reload.Status) []string {
	var wrong []string
	if policies.Err != nil {
		wrong = append(wrong, "degraded: the last change of the policies was refused; the rules from before stay in force:\n"+policies.Err.Error())
	}
	if err := r.plane(); err != nil {
		wrong = append(wrong, "degraded: "+err.Error()+"; what it has said so far stays in force")
	}
	return wrong
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
