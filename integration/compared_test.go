package integration

import (
	"bytes"
	"fmt"
	"net/http"
	"testing"
)

// What the README says in comparison with envoyproxy/ratelimit, where no other test of this folder shows it.
func TestComparedInTheReadme(t *testing.T) {
	server := serve(t, policyDir(t, `
domain: edge
descriptors:
  - {key: a, rate_limit: {requests_per_unit: 2, window: 100h}}
  - {key: a_b, rate_limit: {requests_per_unit: 2, window: 100h}}
`), startRedis(t)...)
	const allowed, refused, most = http.StatusOK, http.StatusTooManyRequests, uint64(1<<64 - 1)
	for i, step := range []struct {
		key, value, more string
		want             int
	}{
		{"a", "b_c", "", allowed},
		{"a", "b_c", "", allowed},
		{"a_b", "c", "", allowed}, // another rule and another counter
		{"a_b", "c", "", allowed},
		{"a", "b_c", "", refused},

		{"a", "unit", `, "limit": {"requestsPerUnit": 9, "unit": "UNKNOWN"}`, allowed}, // the configured limit holds
		{"a", "unit", `, "limit": {"requestsPerUnit": 9}`, allowed},
		{"a", "unit", `, "limit": {"requestsPerUnit": 9, "unit": "UNKNOWN"}`, refused},
		{"a", "unit", `, "limit": {"requestsPerUnit": 9, "unit": 99}`, refused},

		{"a", "cost", "", allowed},
		{"a", "cost", fmt.Sprintf(`, "hitsAddend": "%d"`, most), refused},
		{"a", "cost", fmt.Sprintf(`, "hitsAddend": "%d"`, uint64(1<<63)), refused},
		{"a", "cost", "", allowed}, // neither took or gave anything
		{"a", "cost", "", refused},

		{"a", "back", `, "hitsAddend": 2`, allowed},
		{"a", "back", `, "hitsAddend": 1, "isNegativeHits": true`, allowed},
		{"a", "back", "", allowed},
		{"a", "back", "", refused},
	} {
		body := fmt.Sprintf(`{"domain": "edge", "descriptors": [{"entries": [{"key": %q, "value": %q}]%s}]}`, step.key, step.value, step.more)
		resp, err := http.Post("http://"+server.http+"/json", "application/json", bytes.NewReader([]byte(body)))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != step.want {
			t.Errorf("step %d, %s: status %d, want %d", i+1, body, resp.StatusCode, step.want)
		}
	}
}
