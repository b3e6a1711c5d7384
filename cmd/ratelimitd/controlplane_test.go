package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ratelimitd/ratelimitd/internal/xdstest"
	"github.com/ratelimitd/ratelimitd/pkg/settings"
)

// perHour is a resource that limits descriptors of one entry, key.
func perHour(domain, key string, n uint32) *ratelimitv3.RateLimitConfig {
	return &ratelimitv3.RateLimitConfig{Name: domain, Domain: domain, Descriptors: []*ratelimitv3.RateLimitDescriptor{
		{Key: key, RateLimit: &ratelimitv3.RateLimitPolicy{Unit: ratelimitv3.RateLimitUnit_HOUR, RequestsPerUnit: n}},
	}}
}

// withControlPlane has the program ask a control plane, and come back soon.
func withControlPlane(address string) func(*settings.Settings) {
	return func(s *settings.Settings) {
		s.XDSServer, s.XDSNodeID, s.XDSRetry = address, "envoy-ratelimit", 10*time.Millisecond
	}
}

// health returns what /healthcheck says.
func (p *program) health(t *testing.T) (int, string) {
	t.Helper()
	return page(t, "GET", p.HTTP.String()+"/healthcheck", "")
}

// limitOf asks a descriptor and returns the limit that is shown; 0 for none.
func (p *program) limitOf(t *testing.T, domain, key string) uint32 {
	t.Helper()
	response, err := p.client(t).ShouldRateLimit(t.Context(), request(domain, key, "v"))
	if err != nil {
		t.Fatal(err)
	}
	return response.GetStatuses()[0].GetCurrentLimit().GetRequestsPerUnit()
}

// The program starts before its control plane, keeps what it said when it goes
// away, and notices each change.
func TestControlPlane(t *testing.T) {
	plane := xdstest.Start(t, xdstest.Options{})
	plane.Stop()
	p := start(t, withControlPlane(plane.Address))
	if code, text := p.health(t); code != 503 || !strings.HasPrefix(text, "not ready: no policy is in force yet\ncontrol plane "+plane.Address+": ") {
		t.Errorf("before the first state: %d %s", code, text)
	}
	if _, err := p.client(t).ShouldRateLimit(t.Context(), request("d", "k", "v")); status.Code(err) != codes.Unavailable {
		t.Errorf("a call before the first state: %v", err)
	}

	plane = xdstest.Start(t, xdstest.Options{Address: plane.Address})
	plane.Set(t, "1", perHour("d", "k", 7))
	eventually(t, "ready", func() bool { code, text := p.health(t); return code == 200 && text == "OK\n" })
	if got := p.limitOf(t, "d", "k"); got != 7 {
		t.Errorf("limit %d", got)
	}
	if _, text := page(t, "GET", p.Admin.String()+"/rules", ""); !strings.Contains(text, "domain d,") || !strings.Contains(text, "7 per 1h, fixed_window  d\n") {
		t.Errorf("the admin pages show\n%s", text)
	}

	plane.Set(t, "2", perHour("d", "", 8))
	eventually(t, "a bad state is told", func() bool {
		code, text := p.health(t)
		return code == 200 && strings.Contains(text, "in force:\nd: descriptors[0]: a descriptor needs a key that is not empty")
	})
	eventually(t, "it is refused", func() bool { return plane.Refusal() == "d: descriptors[0]: a descriptor needs a key that is not empty" })
	if got := p.limitOf(t, "d", "k"); got != 7 {
		t.Errorf("limit %d after a bad state", got)
	}

	plane.Stop()
	eventually(t, "it is missed", func() bool {
		code, text := p.health(t)
		return code == 200 && strings.Contains(text, "degraded: control plane "+plane.Address+": ") && strings.HasSuffix(text, "; what it has said so far stays in force\n")
	})
	if got := p.limitOf(t, "d", "k"); got != 7 {
		t.Errorf("limit %d without a control plane", got)
	}

	plane = xdstest.Start(t, xdstest.Options{Address: plane.Address})
	plane.Set(t, "1", perHour("d", "k", 9))
	eventually(t, "the new state is in force", func() bool { return p.limitOf(t, "d", "k") == 9 })
	plane.Set(t, "2")
	eventually(t, "everything is taken away", func() bool { return p.limitOf(t, "d", "k") == 0 })
	if code, text := p.health(t); code != 200 || text != "OK\n" {
		t.Errorf("in the end: %d %s", code, text)
	}
}

// Files and a control plane go together, also in one domain.
func TestControlPlaneAndFiles(t *testing.T) {
	plane, dir := xdstest.Start(t, xdstest.Options{}), t.TempDir()
	write(t, dir+"/a.yaml", "domain: d\ndescriptors:\n  - {key: file, rate_limit: {unit: hour, requests_per_unit: 1}}\n")
	p := start(t, withPolicies(dir), withControlPlane(plane.Address))
	if got := p.limitOf(t, "d", "file"); got != 1 {
		t.Errorf("limit %d of the file before the control plane has said anything", got)
	}
	plane.Set(t, "1", perHour("d", "plane", 2))
	eventually(t, "both are in force", func() bool { return p.limitOf(t, "d", "plane") == 2 && p.limitOf(t, "d", "file") == 1 })
	write(t, dir+"/a.yaml", "domain: d\ndescriptors:\n  - {key: file, rate_limit: {unit: hour, requests_per_unit: 3}}\n")
	eventually(t, "the file changed", func() bool { return p.limitOf(t, "d", "plane") == 2 && p.limitOf(t, "d", "file") == 3 })
	plane.Set(t, "2", perHour("d", "file", 2))
	eventually(t, "a contradiction is refused", func() bool {
		return strings.HasPrefix(plane.Refusal(), `d: descriptors[0]: a descriptor with key "file" stands already at a.yaml:3:5`)
	})
}

// With readiness listening nothing is waited for: the health checks of a
// control plane may be what makes it speak.
func TestReadyWithoutAnyPolicy(t *testing.T) {
	plane := xdstest.Start(t, xdstest.Options{})
	p := start(t, withControlPlane(plane.Address), func(s *settings.Settings) { s.Readiness = settings.ReadyWhenListening })
	if code, text := p.health(t); code != 200 || !strings.HasPrefix(text, "OK\ndegraded: no policy is in force yet") {
		t.Errorf("%d %s", code, text)
	}
	if _, err := p.client(t).ShouldRateLimit(t.Context(), request("d", "k", "v")); status.Code(err) != codes.Unavailable {
		t.Errorf("a call: %v", err)
	}
	eventually(t, "the control plane is asked", func() bool { return len(plane.Requests()) == 1 })
	if err := p.stop(); err != nil { // while it waits for the first state
		t.Errorf("it stopped with %v", err)
	}
}

func TestXDSOptions(t *testing.T) {
	s := settings.Default()
	if o := (&Main{Settings: s}).xdsOptions(nil, nil); o.TLS != nil || o.MaxMessage != 64<<20 || o.NodeID != "ratelimitd" || o.Backoff.Initial != time.Second || o.Backoff.Max != 30*time.Second {
		t.Errorf("by default: %+v", o)
	}
	s.XDSServer, s.XDSNodeMetadata, s.XDSHeaders = "h:1", "a=b,c=d", "x=y"
	s.XDSTLS, s.XDSTLSCAFile, s.XDSTLSCertFile, s.XDSTLSKeyFile, s.XDSTLSServerName = true, "ca", "cert", "key", "name"
	o := (&Main{Settings: s}).xdsOptions(nil, nil)
	if got := fmt.Sprint(o.Server, o.NodeMetadata, o.Headers, *o.TLS); got != "h:1map[a:b c:d] map[x:y] {{ca xds_tls_ca_file cert xds_tls_cert_file key xds_tls_key_file} name}" {
		t.Errorf("got %s", got)
	}
}
