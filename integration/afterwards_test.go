package integration

import (
	"net/http"
	"path/filepath"
	"testing"
	"time"
)

// The route /llm: a look before, the charge after the response, against a budget of 1000 with overdraw.
func TestCostKnownAfterwards(t *testing.T) {
	for _, store := range stores {
		t.Run(store.name, func(t *testing.T) {
			server := serve(t, filepath.Join(deployedDir, "policies"), store.settings(t)...)
			envoy := startEnvoy(t, envoyOptions{ratelimitd: []string{server.grpc}})
			client := envoy.client(t, "")
			history := []struct {
				user, tokens string
				want         int
			}{
				{"alice", "600", http.StatusOK},
				{"alice", "5000", http.StatusOK}, // 400 were left: the answer is sent, and charged in full
				{"alice", "1", http.StatusTooManyRequests},
				{"alice", "1", http.StatusTooManyRequests}, // the denied one was not charged: there is no response to weigh
				{"bob", "999", http.StatusOK},
				{"bob", "1", http.StatusOK}, // used up to the last token, and not over
				{"bob", "1", http.StatusOK},
				{"bob", "1", http.StatusTooManyRequests},
			}
			for i, step := range history {
				got := client.mustGet(t, "/llm", "x-user-id: "+step.user, "x-ask-tokens: "+step.tokens)
				if got.status != step.want {
					t.Fatalf("step %d: status %d, want %d", i+1, got.status, step.want)
				}
				envoy.waitIdle(t)
			}
			envoy.wantNoErrors(t)
		})
	}
}

// waitIdle waits until no call to ratelimitd is on its way, those after a response included.
func (e *envoy) waitIdle(t *testing.T) {
	t.Helper()
	quiet, calls := time.Now(), -1
	waitFor(t, 10*time.Second, "Envoy's calls to end", func() bool {
		now := e.stat(t, "cluster.ratelimitd.upstream_rq_total")
		if now != calls || e.stat(t, "cluster.ratelimitd.upstream_rq_active") != 0 {
			quiet, calls = time.Now(), now
		}
		return time.Since(quiet) > 100*time.Millisecond
	})
}
