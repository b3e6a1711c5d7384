package main

import (
	"time"

	"google.golang.org/grpc"
	// Clients may compress what they send.
	_ "google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"github.com/ratelimitd/ratelimitd/pkg/service"
	"github.com/ratelimitd/ratelimitd/pkg/settings"
)

// window is the flow control window. A static one spares a PING and a
// WINDOW_UPDATE for every call, which grpc spends on measuring the network.
const window = 1 << 20

// newGRPC returns the gRPC server. It sets no bound on the streams of a
// connection, for Envoy has one connection a worker and queues what does not
// fit; and it bears with clients that ping a lot, for grpc would otherwise
// close the connections of those with connection_keepalive.
func newGRPC(s *settings.Settings, rateLimit *service.Service, health *health.Server) *grpc.Server {
	options := append(rateLimit.ServerOptions(),
		grpc.StaticStreamWindowSize(window),
		grpc.StaticConnWindowSize(window),
		grpc.ConnectionTimeout(10*time.Second),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 100 * time.Millisecond, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionAge:      s.GRPCConnectionAge, // 0 is never
			MaxConnectionAgeGrace: s.GRPCConnectionAgeGrace,
			Time:                  time.Minute, // finds out about clients that are gone
			Timeout:               20 * time.Second,
		}),
	)
	server := grpc.NewServer(options...)
	rateLimit.Register(server)
	healthpb.RegisterHealthServer(server, health)
	if s.GRPCReflection {
		reflection.Register(server)
	}
	return server
}
