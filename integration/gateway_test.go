package integration

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"go.yaml.in/yaml/v3"

	"github.com/ratelimitd/ratelimitd/internal/programtest"
	"github.com/ratelimitd/ratelimitd/internal/redistest"
	"github.com/ratelimitd/ratelimitd/internal/xdstest"
)

const gatewayDir = "testdata/envoygateway"

// gatewayPolicies reads the resources of policies.yaml, whose first limit is changed to a number for each user.
func gatewayPolicies(t *testing.T, perUser int) []*ratelimitv3.RateLimitConfig {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(gatewayDir, "policies.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.Replace(text, []byte("requests_per_unit: 3"), fmt.Appendf(nil, "requests_per_unit: %d", perUser), 1)
	var all []map[string]any
	if err := yaml.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	configs := make([]*ratelimitv3.RateLimitConfig, len(all))
	for i, config := range all {
		text, err := json.Marshal(config)
		if err != nil {
			t.Fatal(err)
		}
		configs[i] = resource(t, string(text))
	}
	return configs
}

// gatewayTLS is the TLS of Envoy Gateway's control plane: 1.3, and clients need a certificate.
func gatewayTLS(t *testing.T, files *redistest.Certificates) *tls.Config {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(files.ServerCert, files.ServerKey)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: files.Client.RootCAs, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS13}
}

// gatewaySecret is the Secret envoy-rate-limit with a certificate and its key.
func gatewaySecret(t *testing.T, ca, cert, key string) map[string]string {
	t.Helper()
	secret := map[string]string{}
	for name, path := range map[string]string{"ca.crt": ca, "tls.crt": cert, "tls.key": key} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		secret[name] = string(text)
	}
	return secret
}

// newGatewayPod returns the pod that Envoy Gateway makes, which is not started, and what is otherwise here than there.
func newGatewayPod(t *testing.T, files *redistest.Certificates, plane, redis string) (*pod, []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(gatewayDir, "deployment.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	p := newPod(t, parseManifests(t, text), "envoy-ratelimit", gatewaySecret(t, files.CA, files.ServerCert, files.ServerKey))
	env := []string{
		"CONFIG_GRPC_XDS_SERVER_URL=" + plane, "XDS_CLIENT_BACKOFF_INITIAL_INTERVAL=100ms", "REDIS_URL=" + redis, "PROMETHEUS_ADDR=" + p.at(t, "metrics"),
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + programtest.FreeAddress(t), "TMPDIR=/nowhere", "HOST=127.0.0.1", "GRPC_HOST=127.0.0.1",
	}
	for variable, port := range map[string]string{"GRPC_PORT": "grpc", "PORT": "8080", "DEBUG_PORT": "6070"} {
		_, number, err := net.SplitHostPort(p.at(t, port))
		if err != nil {
			t.Fatal(err)
		}
		env = append(env, variable+"="+number)
	}
	return p, env
}

// startAsRatelimit starts a pod's program under its name there, and so that it cannot write to any file.
func (p *pod) startAsRatelimit(t *testing.T, env []string) {
	t.Helper()
	p.start(t, "/bin/sh", env, "-c", "ulimit -f 0 && exec "+asRatelimit(t))
}

// asRatelimit returns the program under its name in the images of envoyproxy/ratelimit.
func asRatelimit(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "ratelimit")
	program, err := filepath.Abs(ratelimitdPath)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(program, name); err != nil {
		t.Fatal(err)
	}
	return name
}

// startGatewayEnvoy starts the proxy, which calls the pod over TLS.
func startGatewayEnvoy(t *testing.T, p *pod, files *redistest.Certificates) *envoy {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(gatewayDir, "envoy.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	e := &envoy{address: programtest.FreeAddress(t), admin: programtest.FreeAddress(t)}
	words := []string{"CERT_FILE", files.ClientCert, "KEY_FILE", files.ClientKey, "CA_FILE", files.CA}
	for word, address := range map[string]string{"ADMIN_PORT": e.admin, "LISTENER_PORT": e.address, "BACKEND_PORT": programtest.FreeAddress(t), "GRPC_PORT": p.at(t, "grpc")} {
		_, port, err := net.SplitHostPort(address)
		if err != nil {
			t.Fatal(err)
		}
		words = append(words, word, port)
	}
	e.launch(t, strings.NewReplacer(words...).Replace(string(text)), 2)
	return e
}

// served is the common name of the certificate that the gRPC port shows to a new connection. The client has none to show.
func (p *pod) served(t *testing.T, files *redistest.Certificates) string {
	t.Helper()
	conn, err := tls.Dial("tcp", p.at(t, "grpc"), &tls.Config{RootCAs: files.Client.RootCAs, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	state := conn.ConnectionState()
	if state.NegotiatedProtocol != "h2" || state.Version != tls.VersionTLS13 {
		t.Errorf("the gRPC port speaks %q over TLS %x", state.NegotiatedProtocol, state.Version)
	}
	return state.PeerCertificates[0].Subject.CommonName
}

// Behind Envoy Gateway, with its environment, mounts, probes, policies and proxy: it is ready before the control plane has said
// anything and before Redis is there; then each kind of rule that Envoy Gateway makes limits what it says; its dashboard
// finds its metrics; the Secret is renewed while calls run; and the control plane may go, come back, and take everything away.
func TestEnvoyGateway(t *testing.T) {
	files := redistest.NewCertificates(t, t.TempDir())
	plane := xdstest.Start(t, xdstest.Options{TLS: gatewayTLS(t, files)})
	redisPort := programtest.FreePort(t)
	p, env := newGatewayPod(t, files, plane.Address, fmt.Sprintf("127.0.0.1:%d", redisPort))
	p.startAsRatelimit(t, env)
	startup := p.c.StartupProbe
	waitFor(t, time.Duration(startup.PeriodSeconds*startup.FailureThreshold)*time.Second, "the start to succeed", func() bool { return p.passes(t, startup) })
	if !p.passes(t, p.c.ReadinessProbe) || !p.passes(t, p.c.LivenessProbe) {
		t.Error("it is not ready without policies and Redis")
	}
	p.wantNotes(t, "GRPC_SERVER_TLS_CA_CERT")
	envoy := startGatewayEnvoy(t, p, files)
	if got := envoy.client(t, "").mustGet(t, "/users", "x-user-id: alice"); got.status != http.StatusOK {
		t.Errorf("before there are policies: status %d", got.status)
	}

	redistest.Start(t, redistest.Options{Port: redisPort})
	plane.Set(t, "1", gatewayPolicies(t, 3)...)
	waitFor(t, 10*time.Second, "the policies to be acknowledged", func() bool { return plane.Acknowledged("1") })
	waitFor(t, 10*time.Second, "Redis to be found", func() bool {
		return envoy.client(t, "").mustGet(t, "/users", "x-user-id: carol").header.Get("X-Ratelimit-Limit") != ""
	})
	failed := envoy.failures(t)
	checkGatewayRules(t, envoy)
	checkGatewayMetrics(t, p)
	checkGatewayRotation(t, p, envoy, files)
	if now := envoy.failures(t); now != failed {
		t.Errorf("%d calls failed", now-failed)
	}

	client := envoy.client(t, "")
	plane.Stop()
	if got := client.mustGet(t, "/users", "x-user-id: alice"); got.status != http.StatusTooManyRequests {
		t.Errorf("without a control plane: status %d", got.status)
	}
	again := xdstest.Start(t, xdstest.Options{Address: plane.Address, TLS: gatewayTLS(t, files)})
	again.Set(t, "1", gatewayPolicies(t, 30)...)
	waitFor(t, 10*time.Second, "the raised limit", func() bool {
		return client.mustGet(t, "/users", "x-user-id: alice").status == http.StatusOK
	})
	again.Set(t, "2")
	waitFor(t, 10*time.Second, "everything to be taken away", func() bool {
		return client.mustGet(t, "/users", "x-user-id: alice").header.Get("X-Ratelimit-Limit") == ""
	})
	if !p.passes(t, p.c.ReadinessProbe) {
		t.Error("it is not ready without a policy")
	}
	p.Terminate(t, 10*time.Second)
}

// With one variable more only who has a certificate of Envoy Gateway may call; its proxies have.
func TestEnvoyGatewayAsksForCertificates(t *testing.T) {
	files := redistest.NewCertificates(t, t.TempDir())
	plane := xdstest.Start(t, xdstest.Options{TLS: gatewayTLS(t, files)})
	plane.Set(t, "1", gatewayPolicies(t, 3)...)
	p, env := newGatewayPod(t, files, plane.Address, redistest.Start(t, redistest.Options{}).Address)
	p.startAsRatelimit(t, append(env, "GRPC_CLIENT_TLS_CACERT="+p.here("/certs/ca.crt")))
	p.waitReady(t)
	client := startGatewayEnvoy(t, p, files).client(t, "")
	waitFor(t, 10*time.Second, "a call to be limited", func() bool {
		return client.mustGet(t, "/users", "x-user-id: alice").header.Get("X-Ratelimit-Limit") == "3, 3;w=60"
	})
	conn, err := tls.Dial("tcp", p.at(t, "grpc"), &tls.Config{RootCAs: files.Client.RootCAs, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS13})
	if err == nil { // in TLS 1.3 a client hears of a refusal when it reads
		_, err = conn.Read(make([]byte, 1))
		conn.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "certificate required") {
		t.Errorf("a client without a certificate: %v", err)
	}
}

// checkGatewayRules asks about each kind of rule.
func checkGatewayRules(t *testing.T, e *envoy) {
	t.Helper()
	awayFromBoundary(t, time.Minute)
	const ok, over = http.StatusOK, http.StatusTooManyRequests
	for _, row := range []struct {
		method, path, from, headers string // headers have commas between them
		want                        []int
		limit                       string // how x-ratelimit-limit begins
	}{
		{"GET", "/users", "", "x-user-id: alice,x-plan: free", []int{ok, ok, ok, over}, "3, 3;w=60, 5;w=604800"},
		{"GET", "/users", "", "x-user-id: bob", []int{ok}, "3, 3;w=60"},
		{"GET", "/users", "", "", []int{ok}, ""},
		{"GET", "/addresses", "", "", []int{ok, over}, "1, 1;w=86400"},
		{"GET", "/addresses", "127.0.0.2", "", []int{ok, over}, "1, 1;w=86400"},
		{"GET", "/addresses", "127.0.0.5", "", []int{ok}, "2, 2;w=86400"},
		{"GET", "/addresses", "127.0.0.6", "", []int{ok, over}, "2, 2;w=86400"},
		{"POST", "/orders/new?shop=1", "", "x-user-id: alice", []int{ok, over}, "1, 1;w=2592000"},
		{"POST", "/orders/new?shop=2", "", "x-user-id: alice", []int{ok}, "1, 1;w=2592000"},
		{"POST", "/orders/new?shop=1", "", "x-user-id: partner", []int{ok, ok, over}, "2, 2;w=2592000"},
		{"GET", "/orders/new?shop=1", "", "x-user-id: alice", []int{ok}, ""},
		{"POST", "/orders/old?shop=1", "", "x-user-id: alice", []int{ok}, ""},
		{"GET", "/orders", "", "x-trial: yes", []int{ok, ok, ok}, "1, 1;w=86400"},
		{"GET", "/costs", "", "", []int{ok, over}, "3, 3;w=3600"},
		{"GET", "/everyone", "", "", []int{ok, over}, "1, 1;w=31536000"},
		{"GET", "/everyone", "127.0.0.2", "", []int{over}, "1, 1;w=31536000"},
	} {
		client := e.client(t, row.from)
		for i, want := range row.want {
			var headers []string
			if row.headers != "" {
				headers = strings.Split(row.headers, ",")
			}
			got, err := client.send(row.method, row.path, headers...)
			if err != nil {
				t.Fatal(err)
			}
			if limit := got.header.Get("X-Ratelimit-Limit"); got.status != want || limit != row.limit || got.header.Get("X-Envoy-Ratelimited") != "" {
				t.Errorf("%s %s from %s with %s, request %d: status %d, want %d; x-ratelimit-limit %q, want %q", row.method, row.path, row.from, row.headers, i+1, got.status, want, limit, row.limit)
			}
		}
	}
}

// checkGatewayMetrics looks for the series that the dashboard of Envoy Gateway shows, by the mapping that it mounts.
func checkGatewayMetrics(t *testing.T, p *pod) {
	t.Helper()
	response, err := http.Get("http://" + p.at(t, "metrics") + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var page bytes.Buffer
	if _, err := page.ReadFrom(response.Body); err != nil {
		t.Fatal(err)
	}
	key1 := func(route string) string { return route + "_" + route }
	users, all := key1("httproute/default/users/rule/0/match/0/*"), key1("default/everyone/rule/0")
	for _, want := range []string{
		`ratelimit_service_rate_limit_within_limit{domain="default/eg/http",key1="` + users + `",key2="rule-1-match-0_rule-1-match-0"} 4`,
		`ratelimit_service_rate_limit_total_hits{domain="default/eg/http",key1="` + users + `",key2="rule-1-match-0_rule-1-match-0"} 4`,
		`ratelimit_service_rate_limit_over_limit{domain="default/eg/http",key1="` + users + `",key2="rule-0-match-0"} 1`,
		`ratelimit_service_rate_limit_near_limit{domain="default/eg/http",key1="` + users + `",key2="rule-0-match-0"} `,
		`ratelimit_service_rate_limit_shadow_mode{domain="default/eg/http",key1="` + key1("httproute/default/orders/rule/0/match/0/*") + `",key2="rule-1-match-0_rule-1-match-0"} 2`,
		`ratelimit_service_rate_limit_total_hits{domain="default/everyone",key1="` + all + `",key2="rule-0-match--1_rule-0-match--1"} 3`,
		`ratelimit_service_should_rate_limit_error{err_type="service_error"} `,
		`ratelimit_service_total_requests{grpc_method="ShouldRateLimit"} `,
		`ratelimit_service_response_time_seconds_bucket{grpc_method="ShouldRateLimit",le="+Inf"} `,
		"ratelimit_service_config_load_success 1",
		"process_resident_memory_bytes ", "process_virtual_memory_bytes ",
	} {
		if !strings.Contains(page.String(), "\n"+want) {
			t.Errorf("the metrics have no %s", want)
		}
	}
	if strings.Contains(page.String(), "masked_remote_address_127_0_0_0/30") {
		t.Error("the metrics have rules of more than two levels, which the mapping drops")
	}
	if t.Failed() {
		t.Log(strings.Join(regexp.MustCompile(`(?m)^ratelimit_.*$`).FindAllString(page.String(), -1), "\n"))
	}
}

// checkGatewayRotation renews the Secret while calls run. New connections get the new certificate, and no call fails.
func checkGatewayRotation(t *testing.T, p *pod, e *envoy, files *redistest.Certificates) {
	t.Helper()
	before := p.served(t, files)
	stop, calls := make(chan struct{}), sync.WaitGroup{}
	for worker := range 4 {
		client := e.client(t, "")
		calls.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				got, err := client.get("/users", fmt.Sprintf("x-user-id: %d-%d", worker, i))
				if err != nil || got.status != http.StatusOK || got.header.Get("X-Ratelimit-Remaining") != "2" {
					t.Errorf("a call while the certificate is renewed: %v, %d, %v", err, got.status, got.header)
					return
				}
			}
		})
	}
	layVolume(t, p.volumes["/certs"], gatewaySecret(t, files.CA, files.ClientCert, files.ClientKey))
	waitFor(t, 10*time.Second, "the new certificate", func() bool { return p.served(t, files) != before })
	close(stop)
	calls.Wait()
}

// failures is how many calls Envoy could not have answered.
func (e *envoy) failures(t *testing.T) int {
	t.Helper()
	return e.stats(t, `^cluster\.backend\.ratelimit\.`)["cluster.backend.ratelimit.error"]
}

// wantNotes checks which variables the log names as without effect: each once, and no others.
func (p *pod) wantNotes(t *testing.T, names ...string) {
	t.Helper()
	var got []string
	for _, found := range regexp.MustCompile(`a setting changes nothing" name=(\w+)`).FindAllStringSubmatch(p.Log.String(), -1) {
		got = append(got, found[1])
	}
	if strings.Join(got, " ") != strings.Join(names, " ") {
		t.Errorf("the log says that %q change nothing, want %q", got, names)
	}
}
