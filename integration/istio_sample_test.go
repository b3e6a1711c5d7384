package integration

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ratelimitd/ratelimitd/internal/redistest"
)

// sampleRoutes have the actions that the EnvoyFilters of Istio's sample add: of every path, and of those of an API.
const sampleRoutes = `- match: {prefix: /api}
  route: &limited
    cluster: backend
    rate_limits:
      - actions: [{request_headers: {header_name: ":path", descriptor_key: PATH}}]
      - actions: [{header_value_match: {descriptor_key: PATH, descriptor_value: api, headers: [{name: ":path", string_match: {safe_regex: {regex: "/api/.*"}}}]}}]
- match: {prefix: /}
  route: *limited
`

// Istio's sample with another image and nothing else: its environment, its ConfigMap, its limits, and a change of them.
func TestIstioSample(t *testing.T) {
	text, err := os.ReadFile("testdata/istiosample/ratelimit.yaml")
	if err != nil {
		t.Fatal(err)
	}
	all, root := parseManifests(t, text), t.TempDir()
	p := newPod(t, all, "ratelimit", nil)
	mounted := filepath.Join(root, "ratelimit/config")
	if err := os.MkdirAll(mounted, 0o700); err != nil {
		t.Fatal(err)
	}
	p.volumes = map[string]string{"/data": root}
	policies := all.find(t, "ConfigMap", "ratelimit-config").Data
	layVolume(t, mounted, policies)
	env := []string{"REDIS_URL=" + redistest.Start(t, redistest.Options{}).Address}
	for port, variable := range map[string]string{"8080": "PORT", "8081": "GRPC_PORT", "6070": "DEBUG_PORT"} {
		_, number, err := net.SplitHostPort(p.at(t, port))
		if err != nil {
			t.Fatal(err)
		}
		env = append(env, variable+"="+number)
	}
	p.startAsRatelimit(t, env)
	p.wantNotes(t)

	envoy := startEnvoy(t, envoyOptions{ratelimitd: []string{p.at(t, "8081")}, routes: sampleRoutes, edit: func(text string) string {
		return strings.NewReplacer("domain: edge\n", "domain: ratelimit\n", "failure_mode_deny: false", "failure_mode_deny: true").Replace(text)
	}})
	client := envoy.client(t, "")
	awayFromBoundary(t, time.Minute)
	const ok, over = http.StatusOK, http.StatusTooManyRequests
	for _, row := range []struct {
		path string
		want []int
	}{
		{"/productpage", []int{ok, over}},
		{"/productpage?u=1", []int{ok, ok}}, // the path has the query in it
		{"/api/v1/products", []int{ok, ok, over}},
		{"/api/v1/other", []int{over}},
	} {
		for i, want := range row.want {
			if got := client.mustGet(t, row.path); got.status != want {
				t.Errorf("%s, request %d: status %d, want %d", row.path, i+1, got.status, want)
			}
		}
	}
	policies["config.yaml"] = strings.Replace(policies["config.yaml"], "requests_per_unit: 1\n", "requests_per_unit: 1000\n", 1)
	layVolume(t, mounted, policies)
	waitFor(t, 5*time.Second, "the changed ConfigMap to be in force", func() bool { return client.mustGet(t, "/productpage").status == ok })
	envoy.wantNoErrors(t)
	p.Terminate(t, 10*time.Second)
}
