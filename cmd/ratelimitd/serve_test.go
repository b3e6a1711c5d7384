package main

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"github.com/ratelimitd/ratelimitd/pkg/service"
	"github.com/ratelimitd/ratelimitd/pkg/settings"
)

// TestTheFirstExample is what README.md shows, with no settings at all.
func TestTheFirstExample(t *testing.T) {
	p := start(t)
	const body = `{"domain":"edge","descriptors":[{"entries":[{"key":"user","value":"alice"}]}]}`
	code, text := page(t, "POST", p.HTTP.String()+"/json", body)
	const want = `{"overallCode":"OK","statuses":[{"code":"OK","currentLimit":{"requestsPerUnit":10,"unit":"MINUTE"},"limitRemaining":9,"durationUntilReset":"6s"}],` +
		`"responseHeadersToAdd":[{"key":"RateLimit-Policy","value":"\"user\";q=10;w=60"},{"key":"RateLimit","value":"\"user\";r=9;t=6"}]}` + "\n"
	if code != 200 || text != want {
		t.Errorf("got %d %s\nwant %s", code, text, want)
	}

	// gRPC counts on the same counter.
	client := p.client(t)
	for i := range 12 {
		reply, err := client.ShouldRateLimit(t.Context(), request("edge", "user", "alice"))
		if err != nil {
			t.Fatal(err)
		}
		if over := reply.OverallCode == rlsv3.RateLimitResponse_OVER_LIMIT; over != (i >= 9) {
			t.Errorf("call %d after the first: %v", i+1, reply)
		}
	}
	if code, text := page(t, "POST", p.HTTP.String()+"/json", body); code != 429 || !strings.Contains(text, `"Retry-After"`) {
		t.Errorf("over the limit: %d %s", code, text)
	}
	if code, text := page(t, "POST", p.HTTP.String()+"/json", `{}`); code != 400 || !strings.Contains(text, "domain") {
		t.Errorf("without a domain: %d %s", code, text)
	}
	_, metrics := page(t, "GET", p.HTTP.String()+"/metrics", "")
	for _, want := range []string{`outcome="over_limit",rule="edge/user"} 4`, "ratelimitd_config_last_load_successful 1", "go_goroutines", "process_"} {
		if !strings.Contains(metrics, want) {
			t.Errorf("metrics lack %s:\n%s", want, metrics)
		}
	}
}

func TestHealthAndReflection(t *testing.T) {
	p := start(t)
	conn := p.dial(t)
	for name, want := range map[string]healthpb.HealthCheckResponse_ServingStatus{"": healthpb.HealthCheckResponse_SERVING, "ratelimit": healthpb.HealthCheckResponse_SERVING} {
		if got, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{Service: name}); err != nil || got.Status != want {
			t.Errorf("health of %q: %v, %v", name, got, err)
		}
	}
	if _, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{Service: "other"}); status.Code(err) != codes.NotFound {
		t.Errorf("health of a name that is not there: %v", err)
	}
	stream, err := reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, ask := range []*reflectionpb.ServerReflectionRequest{
		{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}},
		{MessageRequest: &reflectionpb.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: "envoy.service.ratelimit.v3.RateLimitService"}},
	} {
		if err := stream.Send(ask); err != nil {
			t.Fatal(err)
		}
		if got, err := stream.Recv(); err != nil || got.GetErrorResponse() != nil || !strings.Contains(got.String(), "RateLimitService") {
			t.Errorf("reflection: %v, %v", got, err)
		}
	}
}

const limitOf = "domain: t\ndescriptors: [{key: a, rate_limit: {unit: hour, requests_per_unit: "

func policy(n string) string { return limitOf + n + "}}]\n" }

// limit asks for the limit in force without a hit.
func limit(t *testing.T, client rlsv3.RateLimitServiceClient) uint32 {
	t.Helper()
	r := request("t", "a", "v")
	reply, err := client.ShouldRateLimit(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return reply.Statuses[0].GetCurrentLimit().GetRequestsPerUnit()
}

func TestReload(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.yaml")
	write(t, file, policy("100"))
	p := start(t, withPolicies(dir))
	client := p.client(t)
	if got := limit(t, client); got != 100 {
		t.Fatalf("limit %d", got)
	}

	// An edit in place.
	if err := os.WriteFile(file, []byte(policy("200")), 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "an edit in place", func() bool { return limit(t, client) == 200 })

	// A rename.
	write(t, file, policy("300"))
	eventually(t, "a rename", func() bool { return limit(t, client) == 300 })

	// A bad change is refused, and everything says so but nothing stops.
	write(t, file, policy("many"))
	eventually(t, "health says so", func() bool {
		code, text := page(t, "GET", p.HTTP.String()+"/healthcheck", "")
		return code == 200 && strings.HasPrefix(text, "OK\ndegraded: the last change of the policies was refused; the rules from before stay in force:\na.yaml:2:")
	})
	if got := limit(t, client); got != 300 {
		t.Errorf("after a bad change the limit is %d", got)
	}
	if _, text := page(t, "GET", p.Admin.String()+"/rules", ""); !strings.HasPrefix(text, "THE NEWEST POLICIES ARE NOT IN FORCE") || !strings.Contains(text, "300 per 1h") {
		t.Errorf("the admin page says:\n%s", text)
	}
	if _, text := page(t, "GET", p.HTTP.String()+"/metrics", ""); !strings.Contains(text, "ratelimitd_config_last_load_successful 0") {
		t.Error("the metric does not say so")
	}
	if log := p.log.String(); strings.Count(log, "level=ERROR") != 1 || !strings.Contains(log, "a.yaml:2:") {
		t.Errorf("the log says:\n%s", log)
	}

	// Mended, by the link of a ConfigMap.
	write(t, filepath.Join(dir, "..1/a.yaml"), policy("400"))
	for _, link := range [][2]string{{"..1", "..data"}, {"..data/a.yaml", "staged"}} {
		if err := os.Symlink(link[0], filepath.Join(dir, link[1])); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Rename(filepath.Join(dir, "staged"), file); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a link", func() bool { return limit(t, client) == 400 })
	write(t, filepath.Join(dir, "..2/a.yaml"), policy("500"))
	if err := os.Symlink("..2", filepath.Join(dir, "..data_tmp")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another target of the link", func() bool { return limit(t, client) == 500 })
	if code, text := page(t, "GET", p.HTTP.String()+"/healthcheck", ""); code != 200 || text != "OK\n" {
		t.Errorf("in the end health says %d %s", code, text)
	}
}

func TestNoPolicyYet(t *testing.T) {
	dir := t.TempDir() + "/later"
	p := start(t, withPolicies(dir))
	client, health := p.client(t), healthpb.NewHealthClient(p.dial(t))
	serving := func(name string) healthpb.HealthCheckResponse_ServingStatus {
		got, err := health.Check(t.Context(), &healthpb.HealthCheckRequest{Service: name})
		if err != nil {
			t.Fatal(err)
		}
		return got.Status
	}
	if _, err := client.ShouldRateLimit(t.Context(), request("t", "a", "v")); status.Code(err) != codes.Unavailable {
		t.Errorf("a call: %v", err)
	}
	if code, text := page(t, "POST", p.HTTP.String()+"/json", `{"domain":"t","descriptors":[{"entries":[{"key":"a"}]}]}`); code != 503 {
		t.Errorf("/json: %d %s", code, text)
	}
	if code, text := page(t, "GET", p.HTTP.String()+"/healthcheck", ""); code != 503 || !strings.HasPrefix(text, "not ready: no policy is in force:\n") {
		t.Errorf("/healthcheck: %d %s", code, text)
	}
	if serving("ratelimit") != healthpb.HealthCheckResponse_NOT_SERVING || serving("") != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("health: %v, of the process: %v", serving("ratelimit"), serving(""))
	}
	write(t, dir+"/a.yaml", policy("7"))
	eventually(t, "ready by itself", func() bool {
		code, _ := page(t, "GET", p.HTTP.String()+"/healthcheck", "")
		return code == 200 && serving("ratelimit") == healthpb.HealthCheckResponse_SERVING
	})
	if got := limit(t, client); got != 7 {
		t.Errorf("limit %d", got)
	}
}

// TestRequestsBeyondTheDefaultOfGRPC: Envoy lets a call through whose
// question is too large for the server.
func TestRequestsBeyondTheDefaultOfGRPC(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/a.yaml", policy("1"))
	client := start(t, withPolicies(dir)).client(t)
	for _, want := range []rlsv3.RateLimitResponse_Code{rlsv3.RateLimitResponse_OK, rlsv3.RateLimitResponse_OVER_LIMIT} {
		reply, err := client.ShouldRateLimit(t.Context(), request("t", "a", strings.Repeat("x", 5<<20)))
		if err != nil || reply.OverallCode != want {
			t.Fatalf("got %v, %v, want %v", reply.GetOverallCode(), err, want)
		}
	}
}

func TestAdminIsOff(t *testing.T) {
	if p := start(t, func(s *settings.Settings) { s.AdminAddress = settings.Off }); p.Admin != nil {
		t.Errorf("admin listens on %v", p.Admin)
	}
}

// TestSecretsStayInside looks for a password wherever the program speaks.
func TestSecretsStayInside(t *testing.T) {
	const secret = "hunter2"
	p := start(t, func(s *settings.Settings) {
		s.RedisPassword, s.RedisSentinelPassword = secret, secret
		s.RedisURL = settings.URL("redis://user:" + secret + "@127.0.0.1:1/0")
		s.LogLevel = "debug"
	})
	said := ""
	for _, path := range []string{"/", "/rules", "/rules.json", "/status", "/settings", "/metrics", "/debug/pprof/", "/debug/pprof/cmdline"} {
		_, text := page(t, "GET", p.Admin.String()+path, "")
		said += text
	}
	if err := p.stop(); err != nil {
		t.Error(err)
	}
	if said += p.log.String(); strings.Contains(said, secret) {
		t.Errorf("the secret is in\n%s", said)
	}
	if !strings.Contains(said, "redis://user:********@127.0.0.1:1/0") {
		t.Error("the masked address is nowhere")
	}
}

// TestDefaultsAreTheServices: a person who sets nothing gets what package
// service recommends.
func TestDefaultsAreTheServices(t *testing.T) {
	m := &Main{Settings: settings.Default()}
	got, want := m.serviceOptions(nil), service.DefaultOptions()
	want.MaxDescriptors, want.MaxRequestBytes = service.DefaultMaxDescriptors, service.DefaultMaxRequestBytes
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestAnAddressInUse(t *testing.T) {
	p := start(t)
	s := settings.Default()
	s.GRPCAddress, s.HTTPAddress, s.AdminAddress = settings.Address(p.GRPC.String()), settings.Address(p.HTTP.String()), "127.0.0.1:0"
	err := (&Main{Settings: s, LogTo: io.Discard}).Run(t.Context())
	want := "grpc_address: cannot listen on " + p.GRPC.String() + ": bind: address already in use; another program listens there, or set another address\n" +
		"http_address: cannot listen on " + p.HTTP.String() + ": bind: address already in use; another program listens there, or set another address"
	if err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
}

func TestToldToStopBeforeTheStart(t *testing.T) {
	s := settings.Default()
	s.GRPCAddress, s.HTTPAddress, s.AdminAddress, s.DrainDelay = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0", 0
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	begin := time.Now()
	if err := (&Main{Settings: s, LogTo: io.Discard}).Run(ctx); err != nil || time.Since(begin) > 5*time.Second {
		t.Errorf("%v after %v", err, time.Since(begin))
	}
	http.DefaultClient.CloseIdleConnections()
}
