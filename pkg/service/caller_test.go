package service

import (
	"context"
	"testing"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/metadata"
)

// TestProxyIsNotToldOfEmptyDescriptors: an error would let the request pass the
// limits of its other descriptors.
func TestProxyIsNotToldOfEmptyDescriptors(t *testing.T) {
	s := start(t, DefaultOptions(), overridePolicy)
	ctx := metadata.AppendToOutgoingContext(context.Background(), "x-envoy-internal", "true")
	for i, want := range []rlsv3.RateLimitResponse_Code{rlsv3.RateLimitResponse_OK, rlsv3.RateLimitResponse_OVER_LIMIT} {
		request := parse(t, "()+(ovr=a)+()")
		got, err := rlsv3.NewRateLimitServiceClient(s.conn).ShouldRateLimit(ctx, request)
		if err != nil || got.GetOverallCode() != want || len(got.GetStatuses()) != 3 {
			t.Errorf("request %d: got %v, %v, want %v with three statuses", i+1, got, err, want)
		}
	}
}

func TestStrictCaller(t *testing.T) {
	for _, row := range []struct {
		userAgent, internal string
		want                bool
	}{
		{"", "", false},
		{"", "true", false},
		{"grpc-c++/1.83.0 grpc-c/54.0.0", "", false},
		{"curl/8", "", false},
		{"grpc-go/1.85.0", "", true},
		{"grpc-go/1.85.0", "true", false},
		{"app/1 grpc-java-netty/1.60", "", true},
	} {
		headers := map[string]string{"user-agent": row.userAgent, "x-envoy-internal": row.internal}
		if StrictCaller(func(name string) string { return headers[name] }) != row.want {
			t.Errorf("%+v", row)
		}
	}
}
