package main

import (
	"context"
	"net"

	"google.golang.org/grpc"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

// serveGRPCFloor serves the same answers as the frame floor with grpc-go: what
// is left of a service that is built on it.
func serveGRPCFloor(address string, _ []string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	rlsv3.RegisterRateLimitServiceServer(server, grpcFloor{})
	return server.Serve(listener)
}

type grpcFloor struct{}

// ShouldRateLimit lets everything pass.
func (grpcFloor) ShouldRateLimit(_ context.Context, request *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error) {
	return allOK(request), nil
}
