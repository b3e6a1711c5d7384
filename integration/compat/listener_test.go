package compat

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
)

// GRPC_UDS takes the place of the port. A socket that a killed process has left is no obstacle, one in use is.
func TestGRPCOnUnixSocket(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "grpc.sock")
	env := append([]string{"GRPC_UDS=" + socket}, redis(t)...)
	asked := func() string {
		out, err := named("ratelimit_client", "-dial_string", "unix:"+socket, "-domain", "any", "-descriptors", "a=b").CombinedOutput()
		if err != nil {
			return err.Error() + "\n" + string(out)
		}
		return string(out)
	}
	killed := start(t, env...)
	killed.Kill()
	if _, err := os.Lstat(socket); err != nil {
		t.Fatalf("a killed process leaves no socket: %v", err)
	}

	s := start(t, env...)
	if out := asked(); !strings.Contains(out, "response:") {
		t.Error(out)
	}
	second := launch(t, "ratelimit", nil, env)
	<-second.Ended
	if want := "GRPC_UDS: cannot listen on unix:" + socket + ": address already in use"; !strings.Contains(second.Log.String(), want) || second.Cmd.ProcessState.Success() {
		t.Errorf("a second process: %s", second.Log)
	}
	if out := asked(); !strings.Contains(out, "response:") {
		t.Errorf("after the second process: %s", out)
	}
	s.Signal(syscall.SIGINT)
	<-s.Ended
	if _, err := os.Lstat(socket); err == nil {
		t.Error("the socket is still there")
	}
}

// GRPC_MAX_CONNECTION_AGE ends connections, and no call. What does not end by itself, as a watch of health, is cut off after
// GRPC_MAX_CONNECTION_AGE_GRACE.
func TestConnectionAgeAndGrace(t *testing.T) {
	t.Parallel() // most of it is waiting
	s := start(t, append([]string{"GRPC_MAX_CONNECTION_AGE=1s", "GRPC_MAX_CONNECTION_AGE_GRACE=500ms"}, redis(t)...)...)
	watching := s.dial(t, insecure.NewCredentials())
	watch, err := healthv1.NewHealthClient(watching).Watch(t.Context(), &healthv1.HealthCheckRequest{Service: "ratelimit"})
	if err != nil {
		t.Fatal(err)
	}
	began, cut := time.Now(), make(chan time.Duration, 1)
	go func() {
		for {
			if _, err := watch.Recv(); err != nil {
				cut <- time.Since(began)
				return
			}
		}
	}()
	connections := map[string]int{}
	conn := s.dial(t, insecure.NewCredentials())
	for len(connections) < 3 && time.Since(began) < 20*time.Second {
		answered, err := call(t.Context(), conn)
		if err != nil {
			t.Fatalf("on connection %d: %v", len(connections), err)
		}
		connections[answered.LocalAddr.String()]++
		time.Sleep(time.Millisecond) // the machine has others to serve
	}
	if len(connections) < 3 {
		t.Errorf("calls on connections: %v", connections)
	}
	select {
	case after := <-cut:
		if after < 1400*time.Millisecond {
			t.Errorf("the watch was cut off after %v", after)
		}
	case <-time.After(20 * time.Second):
		t.Error("the watch goes on")
	}
}

// The debug port has the pages of envoyproxy/ratelimit, besides ratelimitd's.
func TestDebugPort(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "ratelimit/config/basic.yaml"), basicPolicy+`
  - key: plan
    value: free
    descriptors:
      - {key: user, shadow_mode: true, rate_limit: {unit: HOUR, requests_per_unit: 3}}
      - {key: admin, rate_limit: {unlimited: true}}
`)
	s := start(t, append([]string{"RUNTIME_ROOT=" + dir, "RUNTIME_SUBDIRECTORY=ratelimit", "REDIS_AUTH=", "CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS=token:hunter2"}, redis(t)...)...)
	get := func(path string) string {
		t.Helper()
		response, err := http.Get("http://" + s.debug + path)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != http.StatusOK || strings.Contains(string(text), "hunter2") {
			t.Errorf("%s: %s %v\n%s", path, response.Status, err, text)
		}
		return string(text)
	}
	if got, want := get("/rlconfig"), `basic.key1: unit=SECOND requests_per_unit=50, shadow_mode: false, quota_mode: false
basic.one_per_minute: unit=MINUTE requests_per_unit=1, shadow_mode: false, quota_mode: false
basic.plan_free.admin: unit=UNKNOWN requests_per_unit=0, shadow_mode: false, quota_mode: false
basic.plan_free.user: unit=HOUR requests_per_unit=3, shadow_mode: true, quota_mode: false
`; got != want {
		t.Errorf("/rlconfig:\n%s\nwant\n%s", got, want)
	}
	list := get("/")
	if get("/no/such") != list {
		t.Error("an unknown path shows something else than /")
	}
	for line := range strings.Lines(list) {
		path, _, _ := strings.Cut(line, ": ")
		get(path)
	}
	for path, want := range map[string]string{
		"/stats": `"memstats": {`, "/debug/pprof/goroutine?debug=1": "goroutine profile", "/rules": "domain basic", "/settings": "CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS",
	} {
		if got := get(path); !strings.Contains(got, want) {
			t.Errorf("%s shows no %s:\n%s", path, want, got)
		}
	}
}
