package compat

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/ratelimitd/ratelimitd/internal/programtest"
	"github.com/ratelimitd/ratelimitd/internal/redistest"
)

// server is a running `ratelimit`.
type server struct {
	*programtest.Process

	grpc, http, debug string
	conn              *grpc.ClientConn
}

// named returns the program as it is called by a link of this name.
func named(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(ratelimitdPath, args...)
	cmd.Args[0] = name
	return cmd
}

// launch starts the program under a name, with an environment that has its ports and a Redis besides, and ends it with the test.
func launch(t *testing.T, name string, args, env []string) *server {
	t.Helper()
	s := &server{}
	port := func(to *string) string {
		n := programtest.FreePort(t)
		*to = address(n)
		return strconv.Itoa(n)
	}
	cmd := named(name, args...)
	cmd.Env = append([]string{
		"HOST=127.0.0.1", "GRPC_HOST=127.0.0.1", "DISABLE_STATS=true",
		"PORT=" + port(&s.http), "GRPC_PORT=" + port(&s.grpc), "DEBUG_PORT=" + port(&s.debug),
	}, env...)
	s.Process = programtest.Start(t, cmd)
	conn, err := grpc.NewClient(s.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	s.conn = conn
	t.Cleanup(func() {
		_ = conn.Close()
		if !s.End(20 * time.Second) {
			t.Error("it does not end on SIGTERM")
		}
	})
	return s
}

// start launches `ratelimit` and waits until it is ready.
func start(t *testing.T, env ...string) *server {
	t.Helper()
	s := launch(t, "ratelimit", nil, env)
	s.waitReady(t)
	return s
}

func (s *server) waitReady(t *testing.T) {
	t.Helper()
	waitFor(t, "it to be ready", func() bool {
		if !s.Running() {
			t.Fatal("it ended")
		}
		return s.health() == http.StatusOK
	})
}

// health is the status of the health check, 0 when nobody answers.
func (s *server) health() int {
	response, err := http.Get("http://" + s.http + "/healthcheck")
	if err != nil {
		return 0
	}
	_ = response.Body.Close()
	return response.StatusCode
}

// page is what stands at a path of the HTTP port; nothing when nobody answers.
func (s *server) page(t *testing.T, path string) string {
	t.Helper()
	response, err := http.Get("http://" + s.http + path)
	if err != nil {
		return ""
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// ask sends a request.
func (s *server) ask(t *testing.T, request *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	return rlsv3.NewRateLimitServiceClient(s.conn).ShouldRateLimit(ctx, request, grpc.WaitForReady(true))
}

// waitFor waits until a condition holds.
func waitFor(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// redis starts a Redis, and returns the environment that says where it is.
func redis(t *testing.T) []string {
	t.Helper()
	return []string{"REDIS_SOCKET_TYPE=tcp", "REDIS_URL=" + redistest.Start(t, redistest.Options{}).Address}
}

// write puts a file in place by renaming, with the directories above it.
func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	staged := filepath.Join(t.TempDir(), "staged")
	if err := os.WriteFile(staged, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(staged, path); err != nil {
		t.Fatal(err)
	}
}

// address is that of a port on loopback.
func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
