package service

import (
	"context"
	"strings"

	"google.golang.org/grpc/metadata"
)

// StrictCaller reports whether a call comes from a program that uses a gRPC
// library, and not from a proxy: what [Exchange] calls Strict. header returns
// the value of a header, "" if the call has none of that name.
//
// It matters for a descriptor without entries. Envoy sends one when a client
// left out every header that the descriptor is made of and the actions have
// skip_if_absent; an error would let the request pass all its other limits. So
// a proxy's empty descriptor meets no rule. A program that sends one has a
// fault, and is told.
//
// Envoy names no user agent, or grpc-c++ with its google_grpc client. Whatever
// is in doubt is a proxy.
func StrictCaller(header func(name string) string) bool {
	userAgent := header("user-agent")
	return header("x-envoy-internal") == "" &&
		strings.Contains(userAgent, "grpc-") && !strings.Contains(userAgent, "grpc-c++")
}

// callHeaders returns the headers of a call that grpc serves.
func callHeaders(ctx context.Context) func(name string) string {
	return func(name string) string {
		return strings.Join(metadata.ValueFromIncomingContext(ctx, name), " ")
	}
}
