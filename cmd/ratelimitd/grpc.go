package main

import (
	"google.golang.org/grpc"
	// Clients may compress what they send.
	_ "google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"

	"github.com/ratelimitd/ratelimitd/pkg/service"
	"github.com/ratelimitd/ratelimitd/pkg/settings"
)

// newGRPC returns what serves every method that package transport does not:
// health, reflection, and rate limit requests that come compressed. It has no
// connections of its own.
func newGRPC(s *settings.Settings, rateLimit *service.Service, health *health.Server) *grpc.Server {
	server := grpc.NewServer(rateLimit.ServerOptions()...)
	rateLimit.Register(server)
	healthpb.RegisterHealthServer(server, health)
	if s.GRPCReflection {
		reflection.Register(server)
	}
	return server
}
