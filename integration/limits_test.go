package integration

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// byAlgorithm is a route whose limit is the algorithm that x-algorithm names, for each user.
const byAlgorithm = `- match: {prefix: /algorithm}
  route:
    cluster: backend
    rate_limits:
      - actions:
          - request_headers: {header_name: x-algorithm, descriptor_key: algorithm}
          - request_headers: {header_name: x-user-id, descriptor_key: user}
`

// algorithmPolicies limits each user to n requests with each algorithm, in a window so long that nothing comes back while a
// test runs.
func algorithmPolicies(t *testing.T, n int) string {
	t.Helper()
	var text strings.Builder
	text.WriteString("domain: edge\ndescriptors:\n")
	for _, a := range algorithm.All {
		fmt.Fprintf(&text, "  - key: algorithm\n    value: %s\n    descriptors:\n      - key: user\n"+
			"        rate_limit: {requests_per_unit: %d, window: %v, algorithm: %s}\n", a.Name, n, longWindow, a.Name)
	}
	return policyDir(t, text.String())
}

const longWindow = 100 * time.Hour

// Each algorithm lets exactly the limit through, on each store, for each user.
func TestExactlyTheLimit(t *testing.T) {
	for _, store := range stores {
		t.Run(store.name, func(t *testing.T) {
			awayFromBoundary(t, longWindow)
			server := serve(t, algorithmPolicies(t, 5), store.settings(t)...)
			envoy := startEnvoy(t, envoyOptions{ratelimitd: []string{server.grpc}, routes: byAlgorithm})
			client := envoy.client(t, "")
			for _, a := range algorithm.All {
				for _, user := range []string{"alice", "bob"} {
					var got []int
					for range 8 {
						got = append(got, client.mustGet(t, "/algorithm", "x-algorithm: "+a.Name, "x-user-id: "+user).status)
					}
					if want := "[200 200 200 200 200 429 429 429]"; fmt.Sprint(got) != want {
						t.Errorf("%s, %s: got %v, want %s", a.Name, user, got, want)
					}
				}
			}
			envoy.wantNoErrors(t)
		})
	}
}

// Each route of deploy/envoy/envoy.yaml with its limit in deploy/envoy/policies, on each store. A row is a history.
func TestDeployedRoutes(t *testing.T) {
	histories := []struct {
		name string
		asks []ask
	}{
		{"by user", []ask{
			{3, "/user/a", "", []string{"x-user-id: alice"}, 200},
			{2, "/user/b", "", []string{"x-user-id: alice"}, 429},
			{1, "/user", "", []string{"x-user-id: bob"}, 200},
			{9, "/user", "", nil, 200}, // no user, no descriptor
		}},
		{"nested: what a user may depends on the plan", []ask{
			{5, "/plan", "", []string{"x-plan: gold", "x-user-id: alice"}, 200},
			{1, "/plan", "", []string{"x-plan: gold", "x-user-id: alice"}, 429},
			{2, "/plan", "", []string{"x-plan: free", "x-user-id: alice"}, 200},
			{1, "/plan", "", []string{"x-plan: free", "x-user-id: alice"}, 429},
			{9, "/plan", "", []string{"x-plan: unheard", "x-user-id: alice"}, 200},
		}},
		{"by path, with any query", []ask{
			{1, "/path/slow", "", nil, 200},
			{1, "/path/slow?again=1", "", nil, 429},
			{9, "/path/other", "", nil, 200},
		}},
		{"by address, whatever a header says", []ask{
			{20, "/ip", "127.0.0.1", nil, 200},
			{1, "/ip", "127.0.0.1", nil, 429},
			{1, "/ip", "127.0.0.1", []string{"x-forwarded-for: 192.0.2.1"}, 429},
			{1, "/ip", "127.0.0.2", nil, 200},
		}},
		{"by address and user: both must have room", []ask{
			{3, "/both", "127.0.0.3", []string{"x-user-id: carol"}, 200},
			{1, "/both", "127.0.0.4", []string{"x-user-id: carol"}, 429},
			{17, "/both", "127.0.0.3", nil, 200}, // the denied one was not charged to 127.0.0.3
			{1, "/both", "127.0.0.3", []string{"x-user-id: dave"}, 429},
			{3, "/both", "127.0.0.4", []string{"x-user-id: dave"}, 200}, // nor was this one to dave
		}},
		{"by cost", []ask{
			{2, "/cost", "", []string{"x-user-id: alice", "x-cost: 4"}, 200},
			{1, "/cost", "", []string{"x-user-id: alice", "x-cost: 3"}, 429},
			{1, "/cost", "", []string{"x-user-id: alice", "x-cost: 2"}, 200},
			{3, "/cost", "", []string{"x-user-id: alice", "x-cost: 0"}, 200}, // nothing always fits
			{1, "/cost", "", []string{"x-user-id: alice", "x-cost: 1"}, 429},
			{10, "/cost", "", []string{"x-user-id: bob"}, 200}, // no cost is a cost of 1
			{1, "/cost", "", []string{"x-user-id: bob"}, 429},
			{1, "/cost", "", []string{"x-user-id: carol", "x-cost: 11"}, 429}, // more than there ever is
			{1, "/cost", "", []string{"x-user-id: carol", "x-cost: 10"}, 200},
		}},
		{"bytes that are not text are counted as they are", []ask{
			{3, "/user", "", []string{"x-user-id: u\xff"}, 200},
			{1, "/user", "", []string{"x-user-id: u\xff"}, 429},
			{3, "/user", "", []string{"x-user-id: u\xfe"}, 200},
			{1, "/user", "", []string{"x-user-id: u\\xff"}, 200}, // not the same as its escape
			{20, "/both", "127.0.0.5", nil, 200},
			{1, "/both", "127.0.0.5", []string{"x-user-id: \xc3("}, 429}, // it buys no way around the limit by address
		}},
		{"a route without limits", []ask{{30, "/", "", []string{"x-user-id: alice"}, 200}}},
	}
	for _, store := range stores {
		t.Run(store.name, func(t *testing.T) {
			server := serve(t, filepath.Join(deployedDir, "policies"), store.settings(t)...)
			envoy := startEnvoy(t, envoyOptions{ratelimitd: []string{server.grpc}})
			awayFromBoundary(t, time.Minute)
			for _, history := range histories {
				t.Run(history.name, func(t *testing.T) {
					for _, ask := range history.asks {
						ask.run(t, envoy)
					}
				})
			}
			envoy.wantNoErrors(t)
		})
	}
}

// ask is one or more equal requests, and the status that each must get.
type ask struct {
	times   int
	path    string
	from    string // address of the client, 127.0.0.1 when empty
	headers []string
	want    int
}

func (a ask) run(t *testing.T, e *envoy) {
	t.Helper()
	client := e.client(t, a.from)
	for i := range a.times {
		got := client.mustGet(t, a.path, a.headers...).status
		if got != a.want {
			t.Fatalf("%s %q from %q, request %d of %d: status %d, want %d", a.path, a.headers, a.from, i+1, a.times, got, a.want)
		}
	}
}
