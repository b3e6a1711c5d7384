package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"google.golang.org/grpc/health"

	"github.com/ratelimitd/ratelimitd/pkg/compat"
	"github.com/ratelimitd/ratelimitd/pkg/reload"
	"github.com/ratelimitd/ratelimitd/pkg/service"
	"github.com/ratelimitd/ratelimitd/pkg/settings"
	"github.com/ratelimitd/ratelimitd/pkg/transport"
	"github.com/ratelimitd/ratelimitd/pkg/web"
)

// Main is the whole program. Set its fields, then call Run once.
type Main struct {
	Settings *settings.Settings

	// Compat is what else there is when the program stands in the place of
	// envoyproxy/ratelimit, Settings being part of it; else nil. Notes are about
	// what was set in vain.
	Compat *compat.Settings
	Notes  []compat.Note

	// LogTo takes the log.
	LogTo io.Writer

	// OnListen, if not nil, is called once with the addresses in use, before
	// the first request is answered.
	OnListen func(Addresses)

	level slog.LevelVar
	log   *slog.Logger
}

// Addresses are where the program listens. Admin is nil when that is off.
type Addresses struct{ GRPC, HTTP, Admin net.Addr }

// Run answers requests until ctx is done, then stops without losing a call. It
// returns an error if it could not start, or could not go on. Long because the
// whole program stands in it in reading order.
func (m *Main) Run(ctx context.Context) error {
	m.log = newLog(m.LogTo, m.Settings, m.Compat != nil, &m.level)
	m.tellNotes()
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))

	sockets, err := listen(m.Settings)
	if err != nil {
		return err
	}
	defer sockets.close()

	stats, err := m.openStats(registry)
	if err != nil {
		return err
	}
	defer stats.close()
	store, err := m.openStore(stats.beside(registry))
	if err != nil {
		return err
	}
	defer store.close()

	rateLimit, err := service.New(store.decider, m.serviceOptions(stats.meter()), registry)
	if err != nil {
		return err
	}
	spans, err := m.openSpans(store.system, registry)
	if err != nil {
		return err
	}
	policies, err := reload.New(m.reloadOptions(rateLimit.SetRules, stats.beside(registry)))
	if err != nil {
		return err
	}
	stats.also(store.sources...)
	stats.also(runtimeSource(policies))
	policies.Load()
	plane, err := m.openControlPlane(policies, registry)
	if err != nil {
		return err
	}

	ready := &readiness{needs: m.needs(), policies: policies.Status, store: store.ready, plane: plane.err}
	grpcHealth := health.NewServer()
	ready.tellOnce(grpcHealth)

	other := newGRPC(m.Settings, rateLimit, grpcHealth, stats.countOthers, spans.unary)
	defer other.Stop()
	grpcPort, err := newTransport(m.Settings, rateLimit, spans, sparing(other, maxTurnWait), store.inline, m.log, registry)
	if err != nil {
		return err
	}
	tls := grpcSecurity(m.Settings)
	if sockets.grpc, err = tls.listener(sockets.grpc, m.log); err != nil {
		return err
	}
	stats.also(certificatesSource(tls.source))
	servers := &servers{
		grpc: grpcPort,
		http: web.NewServer(closing(ready, spans.json(web.Public(m.publicOptions(rateLimit, ready, registry)))), m.log),
	}
	if sockets.admin != nil {
		if sockets.admin, err = adminSecurity(m.Settings).listener(sockets.admin, m.log); err != nil {
			return err
		}
		servers.admin = web.NewAdminServer(web.Admin(m.adminOptions(policies, ready, registry)), m.log)
	}

	background, stopBackground := context.WithCancel(context.Background())
	var running sync.WaitGroup
	defer running.Wait()
	defer stopBackground()
	running.Go(func() { _ = policies.Run(background) })
	running.Go(func() { plane.run(background) })
	running.Go(func() { ready.tell(background, grpcHealth) })
	running.Go(func() { stats.run(background) })
	hangups := hangups()
	running.Go(func() { reloadOn(background, hangups, policies) })

	sockets.http = web.Bound(servers.http, sockets.http, m.Settings.HTTPMaxConnections)
	if sockets.admin != nil {
		sockets.admin = web.Bound(servers.admin, sockets.admin, maxAdminConnections)
	}
	failed := servers.serve(&running, sockets)
	m.announce(sockets)
	select {
	case err = <-failed:
		m.log.Error("stopping, for a listener failed", "error", err)
	case <-ctx.Done():
		m.log.Info("stopping", "drain_delay", m.Settings.DrainDelay, "shutdown_timeout", m.Settings.ShutdownTimeout)
		ready.drain(grpcHealth)
		time.Sleep(m.Settings.DrainDelay)
	}
	ready.drain(grpcHealth)
	end := time.Now().Add(m.Settings.ShutdownTimeout)
	servers.stop(m.Settings.ShutdownTimeout, m.log)
	spans.flush(end)
	m.log.Info("stopped")
	return err
}

// announce says where the program listens.
func (m *Main) announce(sockets *listeners) {
	at := Addresses{GRPC: sockets.grpc.Addr(), HTTP: sockets.http.Addr()}
	attributes := []any{"version", version(), "grpc", shown(at.GRPC), "http", shown(at.HTTP), "store", m.Settings.Store}
	if sockets.admin != nil {
		at.Admin = sockets.admin.Addr()
		attributes = append(attributes, "admin", shown(at.Admin))
	}
	m.log.Info("listening", attributes...)
	if m.OnListen != nil {
		m.OnListen(at)
	}
}

// servers are what listens.
type servers struct {
	grpc  *transport.Server
	http  *http.Server
	admin *http.Server // nil: off
}

// serve starts the servers. The channel gets the error of one that ends by
// itself.
func (s *servers) serve(running *sync.WaitGroup, sockets *listeners) <-chan error {
	failed := make(chan error, 3)
	start := func(setting string, serve func(net.Listener) error, on net.Listener) {
		running.Go(func() {
			if err := serve(on); err != nil && !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, transport.ErrStopped) {
				failed <- fmt.Errorf("%s: %w", setting, err)
			}
		})
	}
	start("grpc_address", s.grpc.Serve, sockets.grpc)
	start("http_address", s.http.Serve, sockets.http)
	if s.admin != nil {
		start("admin_address", s.admin.Serve, sockets.admin)
	}
	return failed
}

// stop takes no more calls, lets those in flight end, and cuts off what is
// left after the timeout. Watchers of health never end by themselves.
func (s *servers) stop(timeout time.Duration, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	cut := context.AfterFunc(ctx, func() {
		log.Warn("calls in flight did not end in time and are cut off", "shutdown_timeout", timeout)
	})
	var stopping sync.WaitGroup
	stopping.Go(func() {
		if err := s.http.Shutdown(ctx); err != nil {
			_ = s.http.Close()
		}
	})
	s.grpc.GracefulStop(ctx)
	stopping.Wait()
	cut()
	if s.admin != nil {
		_ = s.admin.Close()
	}
}
