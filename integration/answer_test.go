package integration

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"regexp"
	"testing"
	"time"
)

// What a client gets, header by header. Some are Envoy's (X-…), some ratelimitd's, and none comes twice.
func TestAnswerOfAllowedAndDenied(t *testing.T) {
	const seconds = `([1-9]|[1-5][0-9]|60)` // until the minute is over
	for _, store := range stores {
		t.Run(store.name, func(t *testing.T) {
			server := serve(t, filepath.Join(deployedDir, "policies"), append(store.settings(t), "RATELIMITD_BODY=true")...)
			envoy := startEnvoy(t, envoyOptions{ratelimitd: []string{server.grpc}})
			client := envoy.client(t, "")
			awayFromBoundary(t, time.Minute)

			allowed := client.mustGet(t, "/plan", "x-plan: free", "x-user-id: alice")
			wantHeaders(t, allowed, map[string]string{
				"Ratelimit":             `"free";r=1;t=` + seconds,
				"Ratelimit-Policy":      `"free";q=2;w=60`,
				"X-Ratelimit-Limit":     `2, 2;w=60;name="free"`,
				"X-Ratelimit-Remaining": `1`,
				"X-Ratelimit-Reset":     seconds,
				"Retry-After":           ``,
				"X-Envoy-Ratelimited":   ``,
				"Content-Type":          `text/plain`,
			})
			if allowed.status != http.StatusOK || allowed.body != "hello from the backend\n" {
				t.Errorf("allowed: status %d, body %q", allowed.status, allowed.body)
			}

			client.mustGet(t, "/plan", "x-plan: free", "x-user-id: alice")
			denied := client.mustGet(t, "/plan", "x-plan: free", "x-user-id: alice")
			wantHeaders(t, denied, map[string]string{
				"Ratelimit":             `"free";r=0;t=` + seconds,
				"Ratelimit-Policy":      `"free";q=2;w=60`,
				"X-Ratelimit-Limit":     `2, 2;w=60;name="free"`,
				"X-Ratelimit-Remaining": `0`,
				"X-Ratelimit-Reset":     seconds,
				"Retry-After":           seconds,
				"X-Envoy-Ratelimited":   `true`,
				"Content-Type":          `application/problem\+json`,
			})
			var problem struct {
				Error      string
				Message    string
				RetryAfter int `json:"retry_after"`
			}
			if err := json.Unmarshal([]byte(denied.body), &problem); err != nil {
				t.Errorf("denied: body %q: %v", denied.body, err)
			}
			if denied.status != http.StatusTooManyRequests || problem.Error == "" || problem.Message == "" ||
				problem.RetryAfter < 1 || problem.RetryAfter > 60 {
				t.Errorf("denied: status %d, body %q", denied.status, denied.body)
			}
			envoy.wantNoErrors(t)
		})
	}
}

// wantHeaders compares each header with a pattern for all of its value; an empty pattern wants the header absent.
func wantHeaders(t *testing.T, a answer, want map[string]string) {
	t.Helper()
	for name, pattern := range want {
		got := a.header.Values(name)
		switch {
		case pattern == "" && len(got) > 0:
			t.Errorf("status %d: %s is %q, want none", a.status, name, got)
		case pattern != "" && (len(got) != 1 || !regexp.MustCompile("^("+pattern+")$").MatchString(got[0])):
			t.Errorf("status %d: %s is %q, want one of %s", a.status, name, got, pattern)
		}
	}
}

// A client that waits as long as Retry-After says is let through.
func TestRetryAfterIsTrue(t *testing.T) {
	policies := policyDir(t, `
domain: edge
descriptors:
  - key: user
    rate_limit: {requests_per_unit: 1, window: 2s, algorithm: sliding_window_log}
`)
	server := serve(t, policies)
	client := startEnvoy(t, envoyOptions{ratelimitd: []string{server.grpc}}).client(t, "")
	client.mustGet(t, "/user", "x-user-id: alice")
	denied := client.mustGet(t, "/user", "x-user-id: alice")
	wait, err := time.ParseDuration(denied.header.Get("Retry-After") + "s")
	if err != nil || denied.status != http.StatusTooManyRequests || wait > 2*time.Second {
		t.Fatalf("status %d, Retry-After %q", denied.status, denied.header.Get("Retry-After"))
	}
	time.Sleep(wait)
	if again := client.mustGet(t, "/user", "x-user-id: alice"); again.status != http.StatusOK {
		t.Errorf("status %d after the wait, want 200", again.status)
	}
}

// A limit in shadow mode lets everything through, and takes nothing from those beside it.
func TestShadowModeNeverDenies(t *testing.T) {
	policies := policyDir(t, `
domain: edge
descriptors:
  - key: user
    shadow_mode: true
    rate_limit: {requests_per_unit: 1, window: 100h}
  - key: remote_address
    rate_limit: {requests_per_unit: 4, window: 100h}
`)
	for _, store := range stores {
		t.Run(store.name, func(t *testing.T) {
			awayFromBoundary(t, longWindow)
			envoy := startEnvoy(t, envoyOptions{ratelimitd: []string{serve(t, policies, store.settings(t)...).grpc}})
			history := []ask{
				{9, "/user", "", []string{"x-user-id: alice"}, 200},
				{4, "/both", "", []string{"x-user-id: alice"}, 200},
				{1, "/both", "", []string{"x-user-id: alice"}, 429}, // by address
				{9, "/user", "", []string{"x-user-id: alice"}, 200},
			}
			for _, ask := range history {
				ask.run(t, envoy)
			}
			envoy.wantNoErrors(t)
		})
	}
}
