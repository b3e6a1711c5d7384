package service

import (
	"context"
	"strings"

	"google.golang.org/grpc/metadata"
)

// strictCaller reports whether a call comes from a program that uses a gRPC
// library, and not from a proxy.
//
// It matters for a descriptor without entries. Envoy sends one when a client
// left out every header that the descriptor is made of and the actions have
// skip_if_absent; an error would let the request pass all its other limits. So
// a proxy's empty descriptor meets no rule. A program that sends one has a
// fault, and is told.
//
// Envoy names no user agent, or grpc-c++ with its google_grpc client. Whatever
// is in doubt is a proxy.
func strictCaller(ctx context.Context) bool {
	internal := metadata.ValueFromIncomingContext(ctx, "x-envoy-internal")
	return len(internal) == 0 && IsLibrary(strings.Join(metadata.ValueFromIncomingContext(ctx, "user-agent"), " "))
}

// IsLibrary reports whether a user agent is that of a gRPC library which
// programs use and Envoy does not.
func IsLibrary(userAgent string) bool {
	return strings.Contains(userAgent, "grpc-") && !strings.Contains(userAgent, "grpc-c++")
}
