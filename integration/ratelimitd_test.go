package integration

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ratelimitd/ratelimitd/internal/programtest"
	"github.com/ratelimitd/ratelimitd/internal/redistest"
)

// ratelimitd is a running `ratelimitd serve`.
type ratelimitd struct {
	*programtest.Process
	grpc, http string // addresses
	env        []string
}

// serve starts ratelimitd with these policies, on the given store, and waits until it is ready.
func serve(t *testing.T, policies string, store ...string) *ratelimitd {
	t.Helper()
	s := newRatelimitd(t, policies, store...)
	s.start(t)
	return s
}

// newRatelimitd returns a ratelimitd that is not started.
func newRatelimitd(t *testing.T, policies string, store ...string) *ratelimitd {
	t.Helper()
	s := &ratelimitd{grpc: programtest.FreeAddress(t), http: programtest.FreeAddress(t)}
	s.env = append([]string{
		"RATELIMITD_POLICIES=" + policies,
		"RATELIMITD_GRPC_ADDRESS=" + s.grpc,
		"RATELIMITD_HTTP_ADDRESS=" + s.http,
		"RATELIMITD_ADMIN_ADDRESS=" + programtest.FreeAddress(t),
		"RATELIMITD_DRAIN_DELAY=2s",   // Envoy asks every second whether it is ready
		"RATELIMITD_STORE_TIMEOUT=5s", // longer than in production: a machine that is busy with other tests is no failure
	}, store...)
	return s
}

// start starts the process, again if it has ended, and waits until it is ready.
func (s *ratelimitd) start(t *testing.T) {
	t.Helper()
	s.launch(t)
	s.waitReady(t)
}

// launch starts the process and does not wait.
func (s *ratelimitd) launch(t *testing.T) {
	t.Helper()
	s.Process = startProcess(t, s.env, ratelimitdPath, "serve")
}

// waitReady waits until the process says that it is ready.
func (s *ratelimitd) waitReady(t *testing.T) {
	t.Helper()
	waitFor(t, 20*time.Second, "ratelimitd to be ready", func() bool {
		if !s.Running() {
			t.Fatal("ratelimitd ended")
		}
		return s.health() == http.StatusOK
	})
}

// health returns the status of the health check, 0 when nobody answers.
func (s *ratelimitd) health() int {
	resp, err := http.Get("http://" + s.http + "/healthcheck")
	if err != nil {
		return 0
	}
	resp.Body.Close()
	return resp.StatusCode
}

// stores are the settings for each store.
var stores = []struct {
	name     string
	settings func(*testing.T) []string
}{
	{"memory", func(*testing.T) []string { return []string{"RATELIMITD_STORE=memory"} }},
	{"redis", startRedis},
}

// startRedis starts a Redis and returns the settings for it.
func startRedis(t *testing.T) []string {
	t.Helper()
	return []string{
		"RATELIMITD_STORE=redis",
		"RATELIMITD_REDIS_URL=" + redistest.Start(t, redistest.Options{}).URL(),
	}
}

// policyDir returns a new directory that holds one policy file.
func policyDir(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	writePolicy(t, filepath.Join(dir, "edge.yaml"), text)
	return dir
}

func writePolicy(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
