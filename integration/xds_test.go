package integration

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/ratelimitd/ratelimitd/internal/redistest"
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

// The names that Envoy Gateway gives to a route, and to a rule of a policy that routes share.
const (
	gatewayDomain = "default/gateway/http"
	gatewayRoute  = "httproute/default/users/rule/0/match/0/*"
	sharedDomain  = "default/everyone"
	sharedRule    = "default/everyone/rule/0"
)

// gatewayConfig are resources as Envoy Gateway makes them: of a route with a limit for each user and one for a header's
// value, and of a policy that routes share.
func gatewayConfig(t *testing.T, perUser int) []*ratelimitv3.RateLimitConfig {
	t.Helper()
	return []*ratelimitv3.RateLimitConfig{
		resource(t, fmt.Sprintf(`{"name": %[1]q, "domain": %[1]q, "descriptors": [{"key": %[2]q, "value": %[2]q, "descriptors": [
			{"key": "rule-0-match-0", "rate_limit": {"unit": "MINUTE", "requests_per_unit": %[3]d}},
			{"key": "rule-1-match-0", "value": "rule-1-match-0", "rate_limit": {"unit": "WEEK", "requests_per_unit": 5}}]}]}`, gatewayDomain, gatewayRoute, perUser)),
		resource(t, fmt.Sprintf(`{"name": %[1]q, "domain": %[1]q, "descriptors": [{"key": %[2]q, "value": %[2]q, "descriptors": [
			{"key": "rule-0-match--1", "value": "rule-0-match--1", "rate_limit": {"unit": "YEAR", "requests_per_unit": 1}}]}]}`, sharedDomain, sharedRule)),
	}
}

// gatewayRoutes are the routes to them, with the actions that Envoy Gateway writes.
const gatewayRoutes = `- match: {prefix: /users}
  route: {cluster: backend}
  typed_per_filter_config:
    envoy.filters.http.ratelimit:
      "@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimitPerRoute
      domain: ` + gatewayDomain + `
      rate_limits:
        - actions:
            - generic_key: {descriptor_key: ` + gatewayRoute + `, descriptor_value: ` + gatewayRoute + `}
            - request_headers: {header_name: x-user-id, descriptor_key: rule-0-match-0}
        - actions:
            - generic_key: {descriptor_key: ` + gatewayRoute + `, descriptor_value: ` + gatewayRoute + `}
            - header_value_match:
                descriptor_key: rule-1-match-0
                descriptor_value: rule-1-match-0
                headers: [{name: x-plan, string_match: {exact: free}}]
- match: {prefix: /everyone}
  route: {cluster: backend}
  typed_per_filter_config:
    envoy.filters.http.ratelimit/` + sharedDomain + `:
      "@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimitPerRoute
      domain: ` + sharedDomain + `
      rate_limits:
        - actions:
            - generic_key: {descriptor_key: ` + sharedRule + `, descriptor_value: ` + sharedRule + `}
            - generic_key: {descriptor_key: rule-0-match--1, descriptor_value: rule-0-match--1}
`

// sharedFilter adds the filter for the policy that routes share, before the router.
func sharedFilter(t *testing.T) func(string) string {
	return func(text string) string {
		const router = "                  - name: envoy.filters.http.router\n"
		const first = "                  - name: envoy.filters.http.ratelimit\n"
		from, to := strings.Index(text, first), strings.Index(text, router)
		if from < 0 || to < from {
			t.Fatal("envoy.yaml has no such filters")
		}
		filter := strings.Replace(text[from:to], "envoy.filters.http.ratelimit\n", "envoy.filters.http.ratelimit/"+sharedDomain+"\n", 1)
		return text[:to] + filter + text[to:]
	}
}

// gatewayTLS is the TLS of Envoy Gateway's control plane: 1.3, and clients need a certificate.
func gatewayTLS(t *testing.T, files *redistest.Certificates) *tls.Config {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(files.ServerCert, files.ServerKey)
	if err != nil {
		t.Fatal(err)
	}
	pem, err := os.ReadFile(files.CA)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	return &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: roots, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS13}
}

// Behind Envoy Gateway: it is ready before the control plane has said anything, its policies come over TLS, three requests
// of a user pass and the fourth does not, and the control plane may go, come back, and take everything away.
func TestEnvoyGateway(t *testing.T) {
	files := redistest.NewCertificates(t, t.TempDir())
	plane := xdstest.Start(t, xdstest.Options{TLS: gatewayTLS(t, files)})
	server := serveXDS(t, plane, append(startRedis(t),
		"RATELIMITD_READINESS=listening", "RATELIMITD_XDS_TLS=true", "RATELIMITD_XDS_TLS_CA_FILE="+files.CA,
		"RATELIMITD_XDS_TLS_CERT_FILE="+files.ClientCert, "RATELIMITD_XDS_TLS_KEY_FILE="+files.ClientKey,
	)...)
	envoy := startEnvoy(t, envoyOptions{ratelimitd: []string{server.grpc}, routes: gatewayRoutes, edit: sharedFilter(t)})
	client := envoy.client(t, "")
	awayFromBoundary(t, time.Minute)

	plane.Set(t, "1", gatewayConfig(t, 3)...)
	waitFor(t, 10*time.Second, "the policies to be acknowledged", func() bool { return plane.Acknowledged("1") })
	for i, want := range []int{http.StatusOK, http.StatusOK, http.StatusOK, http.StatusTooManyRequests} {
		got := client.mustGet(t, "/users", "x-user-id: alice", "x-plan: free")
		if got.status != want {
			t.Errorf("request %d: status %d, want %d", i+1, got.status, want)
		}
		if shown := got.header.Get("X-Ratelimit-Limit"); shown != "3, 3;w=60, 5;w=604800" {
			t.Errorf("request %d: x-ratelimit-limit %q", i+1, shown)
		}
	}
	if got := client.mustGet(t, "/users", "x-user-id: bob"); got.status != http.StatusOK {
		t.Errorf("another user: status %d", got.status)
	}
	for i, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
		if got := client.mustGet(t, "/everyone"); got.status != want || !strings.HasPrefix(got.header.Get("X-Ratelimit-Limit"), "1, 1;w=31536000") {
			t.Errorf("request %d of everyone: status %d, want %d, header %q", i+1, got.status, want, got.header.Get("X-Ratelimit-Limit"))
		}
	}

	plane.Stop()
	if got := client.mustGet(t, "/users", "x-user-id: alice"); got.status != http.StatusTooManyRequests {
		t.Errorf("without a control plane: status %d", got.status)
	}
	again := xdstest.Start(t, xdstest.Options{Address: plane.Address, TLS: gatewayTLS(t, files)})
	again.Set(t, "1", gatewayConfig(t, 30)...)
	waitFor(t, 10*time.Second, "the raised limit", func() bool {
		return client.mustGet(t, "/users", "x-user-id: alice").status == http.StatusOK
	})
	again.Set(t, "2")
	waitFor(t, 10*time.Second, "everything to be taken away", func() bool {
		return client.mustGet(t, "/users", "x-user-id: alice").header.Get("X-Ratelimit-Limit") == ""
	})
	envoy.wantNoErrors(t)
	server.terminate(t, 10*time.Second)
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
		{"away", freeAddress(t), "no control plane; what it has said so far stays in force"},
		{"silent", silent.Addr().String(), "msg=listening"},
		{"nothing to say", xdstest.Start(t, xdstest.Options{}).Address, "connected to the control plane"},
	} {
		t.Run(row.name, func(t *testing.T) {
			server := newRatelimitd(t, "", "RATELIMITD_XDS_SERVER="+row.server, "RATELIMITD_XDS_NODE_ID=envoy-ratelimit",
				"RATELIMITD_STORE=redis", "RATELIMITD_REDIS_URL=redis://"+freeAddress(t))
			server.launch(t)
			waitFor(t, 20*time.Second, "the log to tell: "+row.logged, func() bool { return strings.Contains(server.log.tail(100), row.logged) })
			if got := server.health(); got != http.StatusServiceUnavailable {
				t.Errorf("health %d", got)
			}
			server.terminate(t, 10*time.Second)
		})
	}
}
