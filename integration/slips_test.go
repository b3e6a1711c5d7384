package integration

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// The ways in which Envoy lets a request through without an answer of ratelimitd. docs/envoy.md tells what to do about each;
// what Envoy does not ask about stands in sent_test.go.

// without returns an edit of Envoy's configuration that takes a block out: a line and all that is indented below it.
func without(t *testing.T, first string) func(string) string {
	t.Helper()
	return func(text string) string {
		before, after, found := strings.Cut(text, first+"\n")
		if !found {
			t.Fatalf("envoy.yaml does not contain %q", first)
		}
		indent := len(first) - len(strings.TrimLeft(first, " "))
		for {
			line, rest, more := strings.Cut(after, "\n")
			if !more || strings.TrimSpace(line) != "" && len(line)-len(strings.TrimLeft(line, " ")) <= indent {
				return before + after
			}
			after = rest
		}
	}
}

// At Envoy's own bound of 1024 calls in flight the next request passes unasked. deploy/envoy/envoy.yaml raises it.
func TestCircuitBreakerLetsThrough(t *testing.T) {
	const most, more = 1024, 10
	for name, row := range map[string]struct {
		edit     func(string) string
		overflow int
	}{
		"the default of Envoy": {without(t, "      circuit_breakers:"), more},
		"as deployed":          {nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			hold := make(chan struct{})
			scribe, address := startScribeThatWaits(t, hold)
			envoy := startEnvoy(t, envoyOptions{ratelimitd: []string{address}, edit: row.edit})
			client := envoy.client(t, "")
			var all sync.WaitGroup
			ask := func(n int) {
				for range n {
					all.Go(func() {
						if _, err := client.get("/user", "x-user-id: alice"); err != nil { // the backend's own breaker may answer
							t.Error(err)
						}
					})
				}
			}
			ask(most)
			waitFor(t, 10*time.Second, "calls to be in flight", func() bool { return scribe.count() == most })
			ask(more)
			overflow := func() int { return envoy.stat(t, "cluster.ratelimitd.upstream_rq_active_overflow") }
			waitFor(t, 10*time.Second, "the rest to be asked about, or let through", func() bool { return scribe.count()-most+overflow() == more })
			if n := overflow(); n != row.overflow {
				t.Errorf("Envoy let %d requests through unasked, want %d", n, row.overflow)
			}
			close(hold)
			all.Wait()
			if n := envoy.stat(t, "cluster.backend.ratelimit.failure_mode_allowed"); n != row.overflow {
				t.Errorf("Envoy counted %d requests that it let through, want %d", n, row.overflow)
			}
		})
	}
}

// Envoy gives up a try after max_interval of the retry policy, which is ten times base_interval if not said, although the call
// as a whole may take longer.
func TestRetryPolicyShortensTheTry(t *testing.T) {
	for maxInterval, lost := range map[string]bool{", max_interval: 10s": false, "": true} {
		t.Run(fmt.Sprintf("lost %v", lost), func(t *testing.T) {
			hold := make(chan struct{})
			_, address := startScribeThatWaits(t, hold)
			envoy := startEnvoy(t, envoyOptions{ratelimitd: []string{address}, edit: func(text string) string {
				return strings.Replace(text, ", max_interval: 10s", maxInterval, 1)
			}})
			time.AfterFunc(500*time.Millisecond, func() { close(hold) })
			envoy.client(t, "").mustGet(t, "/user", "x-user-id: alice")
			if n := envoy.stat(t, "cluster.backend.ratelimit.error"); (n == 1) != lost {
				t.Errorf("%d calls were given up, want lost %v", n, lost)
			}
		})
	}
}

// Envoy speaks HTTP/1.1 to a cluster that does not say otherwise, and gRPC does not.
func TestClusterWithoutHTTP2LetsThrough(t *testing.T) {
	server := serve(t, policyDir(t, userPolicy(1)))
	envoy := startEnvoy(t, envoyOptions{ratelimitd: []string{server.grpc}, edit: func(text string) string {
		text = without(t, "      typed_extension_protocol_options:")(text)
		return without(t, "      health_checks:")(text) // which would fail as well
	}})
	ask{3, "/user", "", []string{"x-user-id: alice"}, http.StatusOK}.run(t, envoy)
	if n := envoy.stat(t, "cluster.backend.ratelimit.error"); n != 3 {
		t.Errorf("%d errors, want 3", n)
	}
	if n := envoy.stat(t, "cluster.ratelimitd.upstream_cx_http1_total"); n != 3 { // by which one can tell
		t.Errorf("%d connections of HTTP/1.1, want 3", n)
	}
}

// With failure_mode_deny Envoy refuses what it cannot ask about, with the status of status_on_error.
func TestFailureModeDeny(t *testing.T) {
	server := serve(t, policyDir(t, userPolicy(1)))
	envoy := startEnvoy(t, envoyOptions{ratelimitd: []string{server.grpc}, edit: func(text string) string {
		return strings.Replace(text, "failure_mode_deny: false", "failure_mode_deny: true", 1)
	}})
	ask{1, "/user", "", []string{"x-user-id: alice"}, http.StatusOK}.run(t, envoy)
	ask{1, "/user", "", []string{"x-user-id: alice"}, http.StatusTooManyRequests}.run(t, envoy)
	server.Kill()
	ask{1, "/user", "", []string{"x-user-id: alice"}, http.StatusInternalServerError}.run(t, envoy)
	ask{1, "/user", "", nil, http.StatusOK}.run(t, envoy) // nothing to ask about is no failure
}

// A request of several megabytes, which Envoy makes of one long header and many actions, is decided like any other. grpc-go's
// own bound is 4 MiB, and a call that is refused is a request let through.
func TestLargeRequestsAreDecided(t *testing.T) {
	var routes strings.Builder
	routes.WriteString("- match: {prefix: /large}\n  route:\n    cluster: backend\n    rate_limits:\n")
	for range 100 {
		routes.WriteString("      - actions: [{request_headers: {header_name: x-user-id, descriptor_key: user}}]\n")
	}
	server := serve(t, policyDir(t, userPolicy(150)))
	envoy := startEnvoy(t, envoyOptions{ratelimitd: []string{server.grpc}, routes: routes.String()})
	user := "x-user-id: " + strings.Repeat("x", 50_000)
	ask{1, "/large", "", []string{user}, http.StatusOK}.run(t, envoy)
	ask{1, "/large", "", []string{user}, http.StatusTooManyRequests}.run(t, envoy) // 100 of 150 are used
	ask{1, "/user", "", []string{user}, http.StatusOK}.run(t, envoy)
	envoy.wantNoErrors(t)
}
