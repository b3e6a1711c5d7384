package integration

import (
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/ratelimitd/ratelimitd/internal/programtest"
	"github.com/ratelimitd/ratelimitd/internal/xdstest"
)

// resource reads one from JSON.
func resource(t *testing.T, text string) *ratelimitv3.RateLimitConfig {
	t.Helper()
	c := &ratelimitv3.RateLimitConfig{}
	if err := protojson.Unmarshal([]byte(text), c); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return c
}

// basicConfig is what checkBasicConfig needs.
func basicConfig(t *testing.T) []*ratelimitv3.RateLimitConfig {
	t.Helper()
	return []*ratelimitv3.RateLimitConfig{
		resource(t, `{"name": "basic", "domain": "basic", "descriptors": [
			{"key": "key1", "rate_limit": {"unit": "SECOND", "requests_per_unit": 50}},
			{"key": "one_per_minute", "rate_limit": {"unit": "MINUTE", "requests_per_unit": 1}}]}`),
		resource(t, `{"name": "another", "domain": "another", "descriptors": [
			{"key": "key2", "rate_limit": {"unit": "MINUTE", "requests_per_unit": 20}},
			{"key": "key3", "rate_limit": {"unit": "HOUR", "requests_per_unit": 10}}]}`),
	}
}

// serveXDS starts a ratelimitd that has its policies from a control plane alone.
func serveXDS(t *testing.T, plane *xdstest.ControlPlane, settings ...string) *ratelimitd {
	t.Helper()
	return serve(t, "", append([]string{
		"RATELIMITD_XDS_SERVER=" + plane.Address, "RATELIMITD_XDS_NODE_ID=envoy-ratelimit", "RATELIMITD_XDS_RETRY=100ms",
		"RATELIMITD_COUNTING=reference",
	}, settings...)...)
}

func TestXdsProviderBasicConfig(t *testing.T) {
	for _, store := range stores {
		t.Run(store.name, func(t *testing.T) {
			plane := xdstest.Start(t, xdstest.Options{})
			plane.Set(t, "1", basicConfig(t)...)
			checkBasicConfig(t, serveXDS(t, plane, store.settings(t)...).dial(t))
		})
	}
}

func TestXdsProviderBasicConfigReload(t *testing.T) {
	plane := xdstest.Start(t, xdstest.Options{})
	plane.Set(t, "1", basicConfig(t)...)
	client := serveXDS(t, plane, "RATELIMITD_STORE=memory").dial(t)
	limit := func(domain, key string) uint32 {
		return mustAsk(t, client, domain, key, "x").GetStatuses()[0].GetCurrentLimit().GetRequestsPerUnit()
	}
	if got := limit("basic", "key1"); got != 50 {
		t.Errorf("before: limit %d", got)
	}
	plane.Set(t, "2", resource(t, `{"name": "reload", "domain": "reload", "descriptors": [{"key": "block", "rate_limit": {"unit": "MINUTE"}}]}`))
	waitFor(t, 10*time.Second, "the new snapshot to be in force", func() bool {
		return mustAsk(t, client, "reload", "block", "x").GetOverallCode() == rlsv3.RateLimitResponse_OVER_LIMIT
	})
	if got := limit("basic", "key1"); got != 0 {
		t.Errorf("with the new snapshot: limit %d of the old one", got)
	}
	plane.Set(t, "3", basicConfig(t)...)
	waitFor(t, 10*time.Second, "the old snapshot to be restored", func() bool { return limit("basic", "key1") == 50 })
	if got := mustAsk(t, client, "reload", "block", "x"); got.GetOverallCode() != rlsv3.RateLimitResponse_OK {
		t.Errorf("in the end: %v", got)
	}
}

// Whatever the start waits for, SIGTERM ends it in order: a control plane that is away, says nothing, or has nothing to say,
// and a Redis that is not there.
func TestStopsWhileTheStartWaits(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	for _, row := range []struct{ name, server, logged string }{
		{"away", programtest.FreeAddress(t), "no control plane; what it has said so far stays in force"},
		{"silent", silent.Addr().String(), "msg=listening"},
		{"nothing to say", xdstest.Start(t, xdstest.Options{}).Address, "connected to the control plane"},
	} {
		t.Run(row.name, func(t *testing.T) {
			server := newRatelimitd(t, "", "RATELIMITD_XDS_SERVER="+row.server, "RATELIMITD_XDS_NODE_ID=envoy-ratelimit",
				"RATELIMITD_STORE=redis", "RATELIMITD_REDIS_URL=redis://"+programtest.FreeAddress(t))
			server.launch(t)
			waitFor(t, 20*time.Second, "the log to tell: "+row.logged, func() bool { return strings.Contains(server.Log.String(), row.logged) })
			if got := server.health(); got != http.StatusServiceUnavailable {
				t.Errorf("health %d", got)
			}
			server.Terminate(t, 10*time.Second)
		})
	}
}
