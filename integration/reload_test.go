package integration

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Policies change while requests come, in each way in which files change. No request fails, each is judged by the old rules
// or the new, the count goes on, and a bad change leaves the last good rules in force.
func TestReloadUnderLoad(t *testing.T) {
	ways := []struct {
		name   string
		create func(t *testing.T, dir, text string)
		change func(t *testing.T, dir, text string)
	}{
		{"written in place", writeInPlace, writeInPlace},
		{"renamed", writeInPlace, renameOver},
		{"ConfigMap", swapConfigMap, swapConfigMap},
	}
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			const limit, changes = 1_000_000, 5
			awayFromBoundary(t, longWindow)
			dir := t.TempDir()
			way.create(t, dir, userPolicy(limit))
			server := serve(t, dir)
			envoy := startEnvoy(t, envoyOptions{ratelimitd: []string{server.grpc}})
			clients := []*client{envoy.client(t, ""), envoy.client(t, ""), envoy.client(t, ""), envoy.client(t, "")}
			load := startLoad(t, clients, "/user", []string{"x-user-id: everyone"}, func(a answer) error {
				if shown, err := strconv.Atoi(limitShown(a)); err != nil || a.status != http.StatusOK || shown < limit || shown > limit+changes {
					return fmt.Errorf("status %d, limit %q", a.status, limitShown(a))
				}
				return nil
			})

			probes := 0 // requests beside the load
			shows := func(n int) func() bool {
				return func() bool {
					probes++
					return limitShown(clients[0].mustGet(t, "/user", "x-user-id: everyone")) == strconv.Itoa(n)
				}
			}
			for i := 1; i <= changes; i++ {
				way.change(t, dir, userPolicy(limit+i))
				waitFor(t, 5*time.Second, fmt.Sprintf("change %d to be in force", i), shows(limit+i))
			}
			way.change(t, dir, "domain: edge\ndescriptors:\n  - key: user\n    rate_limit: {requests_per_unit: many}\n")
			waitFor(t, 5*time.Second, "the bad change to be told", func() bool { return strings.Contains(healthText(t, server), "edge.yaml") })
			if !shows(limit + changes)() {
				t.Error("the last good rules are not in force after a bad change")
			}
			way.change(t, dir, userPolicy(limit))
			waitFor(t, 5*time.Second, "good rules to be in force again", shows(limit))

			requests := load.stop(t) + probes
			probes = 0
			last := clients[0].mustGet(t, "/user", "x-user-id: everyone")
			if want := strconv.Itoa(limit - requests - 1); last.header.Get("X-Ratelimit-Remaining") != want {
				t.Errorf("after %d requests %s remain, want %s", requests+1, last.header.Get("X-Ratelimit-Remaining"), want)
			}
			envoy.wantNoErrors(t)
			t.Logf("%d requests", requests)
		})
	}
}

// userPolicy limits each user to n requests in a window in which nothing comes back.
func userPolicy(n int) string {
	return fmt.Sprintf("domain: edge\ndescriptors:\n  - key: user\n    rate_limit: {requests_per_unit: %d, window: %v}\n", n, longWindow)
}

// limitShown returns the number of requests that the headers of an answer say is the limit.
func limitShown(a answer) string {
	limit, _, _ := strings.Cut(a.header.Get("X-Ratelimit-Limit"), ",")
	return limit
}

// healthText returns the body of the health check, which must say that ratelimitd is well.
func healthText(t *testing.T, s *ratelimitd) string {
	t.Helper()
	resp, err := http.Get("http://" + s.http + "/healthcheck")
	body := bodyOf(t, resp, err)
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("health check: status %d, %s", resp.StatusCode, body)
	}
	return body
}

func writeInPlace(t *testing.T, dir, text string) {
	t.Helper()
	writePolicy(t, filepath.Join(dir, "edge.yaml"), text)
}

func renameOver(t *testing.T, dir, text string) {
	t.Helper()
	writePolicy(t, filepath.Join(dir, ".edge.yaml.new"), text)
	if err := os.Rename(filepath.Join(dir, ".edge.yaml.new"), filepath.Join(dir, "edge.yaml")); err != nil {
		t.Fatal(err)
	}
}

// swapConfigMap changes a directory as Kubernetes changes a mounted ConfigMap: edge.yaml -> ..data/edge.yaml, where ..data is
// a link to a new directory each time.
func swapConfigMap(t *testing.T, dir, text string) {
	t.Helper()
	layVolume(t, dir, map[string]string{"edge.yaml": text})
}
