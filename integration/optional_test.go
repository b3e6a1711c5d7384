package integration

import (
	"net/http"
	"testing"
)

// An optional action (skip_if_absent) that finds nothing leaves its entry out.
const optionalRoutes = `- match: {prefix: /optional}
  route:
    cluster: backend
    rate_limits:
      - actions:
          - request_headers: {header_name: x-a, descriptor_key: a, skip_if_absent: true}
          - request_headers: {header_name: x-b, descriptor_key: b, skip_if_absent: true}
      - actions:
          - remote_address: {}
`

// When every action of a descriptor finds nothing, Envoy sends the descriptor all the same, without entries, beside the
// others. This test records that; the next one is why it matters.
func TestEnvoySendsEmptyDescriptors(t *testing.T) {
	scribe, address := startScribe(t)
	client := startEnvoy(t, envoyOptions{ratelimitd: []string{address}, routes: optionalRoutes}).client(t, "")
	tests := []struct {
		headers []string
		want    string
	}{
		{[]string{"x-a: 1", "x-b: 2"}, "[a=1 b=2] [remote_address=127.0.0.1]"},
		{[]string{"x-b: 2"}, "[b=2] [remote_address=127.0.0.1]"},
		{[]string{"x-b: "}, "[b=] [remote_address=127.0.0.1]"},
		{nil, "[] [remote_address=127.0.0.1]"},
	}
	for _, test := range tests {
		client.mustGet(t, "/optional", test.headers...)
		if got := scribe.take(); got != test.want {
			t.Errorf("headers %q: Envoy sent %s, want %s", test.headers, got, test.want)
		}
	}
}

// A client that leaves out optional headers is still limited by the other descriptors. If ratelimitd answered the empty
// descriptor with an error, Envoy would let the request through.
func TestLeavingHeadersOutEscapesNothing(t *testing.T) {
	policies := policyDir(t, `
domain: edge
descriptors:
  - key: remote_address
    rate_limit: {requests_per_unit: 2, window: 100h}
`)
	envoy := startEnvoy(t, envoyOptions{ratelimitd: []string{serve(t, policies).grpc}, routes: optionalRoutes})
	client := envoy.client(t, "")
	for i, want := range []int{http.StatusOK, http.StatusOK, http.StatusTooManyRequests} {
		if got := client.mustGet(t, "/optional").status; got != want {
			t.Errorf("request %d: status %d, want %d", i+1, got, want)
		}
	}
	envoy.wantNoErrors(t)
}
