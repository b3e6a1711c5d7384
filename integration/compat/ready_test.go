package compat

import (
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	configv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ratelimitd/ratelimitd/internal/programtest"
	"github.com/ratelimitd/ratelimitd/internal/redistest"
	"github.com/ratelimitd/ratelimitd/internal/xdstest"
)

// resource limits any value of a domain's k to one a day; with many, it has so many descriptors besides.
func resource(domain string, many int) *configv3.RateLimitConfig {
	limit := &configv3.RateLimitPolicy{Unit: configv3.RateLimitUnit_DAY, RequestsPerUnit: 1}
	c := &configv3.RateLimitConfig{Name: domain, Domain: domain, Descriptors: []*configv3.RateLimitDescriptor{{Key: "k", RateLimit: limit}}}
	for i := range many {
		c.Descriptors = append(c.Descriptors, &configv3.RateLimitDescriptor{Key: fmt.Sprint("key", i), RateLimit: limit})
	}
	return c
}

// fromPlane is the environment for a control plane, asked often.
func fromPlane(address string) []string {
	return []string{
		"CONFIG_TYPE=GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_SERVER_URL=" + address, "CONFIG_GRPC_XDS_NODE_ID=envoy-ratelimit", "XDS_CLIENT_BACKOFF_INITIAL_INTERVAL=100ms",
		"LOG_LEVEL=info",
	}
}

func (s *server) waitHealth(t *testing.T, want int, when string) {
	t.Helper()
	waitFor(t, fmt.Sprintf("health %d %s", want, when), func() bool { return s.health() == want })
}

// staysAt fails if the health check says something else within a second.
func (s *server) staysAt(t *testing.T, want int, when string) {
	t.Helper()
	for end := time.Now().Add(time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if got := s.health(); got != want {
			t.Fatalf("%s: health %d, want %d", when, got, want)
		}
	}
}

// Without more it is ready when Redis has answered once, and a control plane too, if only that there is no policy.
func TestHealth(t *testing.T) {
	t.Run("Redis", func(t *testing.T) {
		t.Parallel()
		port := programtest.FreePort(t)
		s := launch(t, "ratelimit", nil, []string{"REDIS_SOCKET_TYPE=tcp", "REDIS_URL=" + address(port)})
		s.waitHealth(t, http.StatusServiceUnavailable, "before Redis")
		store := redistest.Start(t, redistest.Options{Port: port})
		s.waitReady(t)
		store.Kill()
		s.staysAt(t, http.StatusOK, "after Redis")
	})
	t.Run("control plane", func(t *testing.T) {
		t.Parallel()
		plane := xdstest.Start(t, xdstest.Options{})
		s := launch(t, "ratelimit", nil, append(redis(t), fromPlane(plane.Address)...))
		waitFor(t, "the control plane to be asked", func() bool { return len(plane.Requests()) > 0 })
		s.staysAt(t, http.StatusServiceUnavailable, "before the first state")
		plane.Set(t, "1")
		s.waitReady(t)
	})
	t.Run("HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED", func(t *testing.T) {
		t.Parallel()
		plane := xdstest.Start(t, xdstest.Options{})
		env := append(fromPlane(plane.Address), "HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED=true", "FORCE_START_WITHOUT_INITIAL_CONFIG=true")
		s := launch(t, "ratelimit", nil, append(redis(t), env...))
		plane.Set(t, "1")
		waitFor(t, "the empty state to be acknowledged", func() bool { return plane.Acknowledged("1") })
		s.staysAt(t, http.StatusServiceUnavailable, "with no policy")
		plane.Set(t, "2", resource("d", 0))
		s.waitReady(t)
		plane.Set(t, "3")
		s.waitHealth(t, http.StatusServiceUnavailable, "after the last policy")
	})
}

// With FORCE_START_WITHOUT_INITIAL_CONFIG nothing is waited for; calls fail until there is what they need.
func TestForceStart(t *testing.T) {
	port := programtest.FreePort(t)
	plane := xdstest.Start(t, xdstest.Options{})
	plane.Stop()
	env := append(fromPlane(plane.Address), "FORCE_START_WITHOUT_INITIAL_CONFIG=true", "REDIS_SOCKET_TYPE=tcp", "REDIS_URL="+address(port))
	s := launch(t, "ratelimit", nil, env)
	s.waitReady(t)
	s.staysAt(t, http.StatusOK, "with nothing")
	if _, err := s.askFor(t, "d"); status.Code(err) != codes.Unavailable || status.Convert(err).Message() != "no rate limit configuration loaded" {
		t.Errorf("with nothing: %v", err)
	}
	plane = xdstest.Start(t, xdstest.Options{Address: plane.Address})
	plane.Set(t, "1", resource("d", 0))
	waitFor(t, "the policies to be acknowledged", func() bool { return plane.Acknowledged("1") })
	begun := time.Now()
	if _, err := s.askFor(t, "d"); status.Code(err) != codes.Unavailable || time.Since(begun) > 5*time.Second {
		t.Errorf("without Redis: %v after %v", err, time.Since(begun))
	}
	redistest.Start(t, redistest.Options{Port: port})
	waitFor(t, "the limit", func() bool { return s.limited(t, "d") })

	// Who wants the process to be ready with Redis alone says so, as there.
	port = programtest.FreePort(t)
	s = launch(t, "ratelimit", nil, append(env, "REDIS_URL="+address(port), "REDIS_HEALTH_CHECK_ACTIVE_CONNECTION=true"))
	s.waitHealth(t, http.StatusServiceUnavailable, "before Redis")
	store := redistest.Start(t, redistest.Options{Port: port})
	s.waitReady(t)
	store.Kill()
	s.waitHealth(t, http.StatusServiceUnavailable, "after Redis")
}

// Whatever the start waits for or does, SIGTERM ends it in order.
func TestStopsAtAnyMomentOfTheStart(t *testing.T) {
	nowhere := func(t *testing.T) []string {
		return []string{"REDIS_SOCKET_TYPE=tcp", "REDIS_URL=" + programtest.FreeAddress(t)}
	}
	listening := func(s *server) bool {
		conn, err := net.Dial("tcp", s.grpc)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	}
	for name, row := range map[string]struct {
		env  func(*testing.T) []string
		when func(*server) bool
	}{
		"Redis is away": {nowhere, func(s *server) bool { return s.health() != 0 }},
		"the control plane is away": {
			func(t *testing.T) []string { return append(redis(t), fromPlane(programtest.FreeAddress(t))...) },
			func(s *server) bool { return strings.Contains(s.Log.String(), "no control plane") },
		},
		"files are read": {
			func(t *testing.T) []string {
				dir := t.TempDir()
				var policy strings.Builder
				policy.WriteString("domain: d\ndescriptors:\n")
				for i := range 50_000 {
					fmt.Fprintf(&policy, "  - {key: k%d, rate_limit: {unit: day, requests_per_unit: 1}}\n", i)
				}
				write(t, filepath.Join(dir, "ratelimit/config/a.yaml"), policy.String())
				return append(nowhere(t), "RUNTIME_ROOT="+dir, "RUNTIME_SUBDIRECTORY=ratelimit")
			},
			listening, // which it does before it reads
		},
		"a state is taken": {
			func(t *testing.T) []string {
				plane := xdstest.Start(t, xdstest.Options{})
				plane.Set(t, "1", resource("d", 50_000))
				return append(nowhere(t), fromPlane(plane.Address)...)
			},
			func(s *server) bool { return strings.Contains(s.Log.String(), "connected to the control plane") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := launch(t, "ratelimit", nil, row.env(t))
			waitFor(t, "that moment", func() bool { return row.when(s) })
			s.Terminate(t, 10*time.Second)
		})
	}
}
