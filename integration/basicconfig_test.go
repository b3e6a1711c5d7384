package integration

import (
	"context"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// dial returns a client of the gRPC port.
func (s *ratelimitd) dial(t *testing.T) rlsv3.RateLimitServiceClient {
	t.Helper()
	conn, err := grpc.NewClient(s.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return rlsv3.NewRateLimitServiceClient(conn)
}

// mustAsk asks about one descriptor; pairs are its keys and values.
func mustAsk(t *testing.T, client rlsv3.RateLimitServiceClient, domain string, pairs ...string) *rlsv3.RateLimitResponse {
	t.Helper()
	request := asking(pairs...)
	request.Domain = domain
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	response, err := client.ShouldRateLimit(ctx, request)
	if err != nil {
		t.Fatal(err)
	}
	return response
}

// checkBasicConfig is the body that the integration tests of envoyproxy/ratelimit share. The domain basic limits (key1, any
// value) to 50 a second and (one_per_minute, any value) to 1 a minute; another has (key2, any) with 20 a minute and (key3,
// any) with 10 an hour. Each is counted for itself.
func checkBasicConfig(t *testing.T, client rlsv3.RateLimitServiceClient) {
	t.Helper()
	if got := mustAsk(t, client, "foo", "hello", "world"); got.GetOverallCode() != rlsv3.RateLimitResponse_OK || got.GetStatuses()[0].GetCurrentLimit() != nil {
		t.Errorf("an unknown domain: %v", got)
	}

	awayFromBoundary(t, time.Second)
	status := mustAsk(t, client, "basic", "key1", "foo").GetStatuses()[0]
	if limit := status.GetCurrentLimit(); limit.GetRequestsPerUnit() != 50 || limit.GetUnit() != rlsv3.RateLimitResponse_RateLimit_SECOND || status.GetLimitRemaining() != 49 {
		t.Errorf("50 a second: %v", status)
	}

	awayFromBoundary(t, time.Minute)
	for hit := 1; hit <= 25; hit++ {
		response := mustAsk(t, client, "another", "key2", "x")
		status := response.GetStatuses()[0]
		if over := hit > 20; (response.GetOverallCode() == rlsv3.RateLimitResponse_OVER_LIMIT) != over || status.GetLimitRemaining() != uint32(max(0, 20-hit)) {
			t.Fatalf("20 a minute, hit %d: %v", hit, response)
		}
	}

	awayFromBoundary(t, time.Hour)
	for hit := 1; hit <= 15; hit++ {
		request := &rlsv3.RateLimitRequest{Domain: "another", Descriptors: []*ratelimitv3.RateLimitDescriptor{
			asking("key2", "y").GetDescriptors()[0], asking("key3", "y").GetDescriptors()[0],
		}}
		response, err := client.ShouldRateLimit(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		minute, hour := response.GetStatuses()[0], response.GetStatuses()[1]
		if over := hit > 10; (hour.GetCode() == rlsv3.RateLimitResponse_OVER_LIMIT) != over || response.GetOverallCode() != hour.GetCode() ||
			minute.GetLimitRemaining() != uint32(20-hit) || hour.GetLimitRemaining() != uint32(max(0, 10-hit)) {
			t.Fatalf("20 a minute and 10 an hour, hit %d: %v", hit, response)
		}
	}

	awayFromBoundary(t, time.Minute)
	untilReset := func() time.Duration {
		return mustAsk(t, client, "basic", "one_per_minute", "x").GetStatuses()[0].GetDurationUntilReset().AsDuration()
	}
	before := untilReset()
	waitFor(t, 10*time.Second, "the time until the reset to fall", func() bool { return untilReset() <= before-2*time.Second })
}
