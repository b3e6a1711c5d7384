package service

import (
	"testing"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

const degradedPolicy = `
domain: t
descriptors:
  - {key: allow, rate_limit: {unit: hour, requests_per_unit: 9, on_store_error: allow}}
  - {key: local, rate_limit: {unit: hour, requests_per_unit: 9, on_store_error: local}}
  - {key: deny, rate_limit: {unit: hour, requests_per_unit: 9, on_store_error: deny}}
  - {key: trial, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 9, on_store_error: local}}
  - {key: error, rate_limit: {unit: hour, requests_per_unit: 9}}
  - {key: shed, rate_limit: {unit: hour, requests_per_unit: 9, priority: sheddable}}
`

// TestDegradedIsTold in metadata, and in a header if that is asked for.
func TestDegradedIsTold(t *testing.T) {
	o := Options{Metadata: true, Headers: Headers{Degraded: true}}
	s := start(t, o, degradedPolicy)
	degraded := true
	s.store.decided = func(asks []algorithm.Ask, out []algorithm.Decision) {
		for i := range asks {
			out[i] = algorithm.Decision{Outcome: algorithm.Allowed, Remaining: 2}
			if !degraded {
				continue
			}
			switch asks[i].OnStoreError {
			case algorithm.FailAllow:
				out[i].Degraded, out[i].Err = true, errStoreGone
			case algorithm.FailLocal:
				out[i].Degraded = true
			case algorithm.FailDeny:
				out[i] = algorithm.Decision{Outcome: algorithm.Denied, Degraded: true, Err: errStoreGone}
			case algorithm.FailError: // decided, or shed
				if asks[i].Priority == algorithm.PrioritySheddable {
					out[i] = algorithm.Decision{Outcome: algorithm.Denied, Degraded: true, Err: errStoreGone}
				}
			}
		}
	}
	for _, row := range []struct{ ask, metadata, header string }{
		{"(allow=1)", "allow", "allow"},
		{"(local=1)", "local", "local"},
		{"(deny=1)", "deny", "deny"},
		{"(allow=1)+(local=1)", "local", "local"},
		{"(local=1)+(deny=1)+(allow=1)", "deny", "deny"},
		{"(error=1)+(local=1)", "local", "local"}, // the store decided one of them
		{"(error=1)", "", ""},
		{"(shed=1)+(local=1)", "deny", "deny"},
		{"(trial=1)", "local", ""}, // clients do not hear of it
		{"(trial=1)+(allow=1)", "local", "allow"},
	} {
		response, err := s.ask(t, row.ask)
		if err != nil {
			t.Fatal(err)
		}
		fields, header := response.DynamicMetadata.Fields, ""
		if row.header != "" {
			header = "X-RateLimit-Degraded: " + row.header
		}
		if got := headersOf(response); got != header {
			t.Errorf("%s: headers %q, want %q", row.ask, got, header)
		}
		if got := fields["degraded_by"].GetStringValue(); got != row.metadata || fields["degraded"].GetBoolValue() != (row.metadata != "") {
			t.Errorf("%s: metadata %v, want %q", row.ask, fields, row.metadata)
		}
	}
	degraded = false
	if response, err := s.ask(t, "(local=1)"); err != nil || headersOf(response) != "" || response.DynamicMetadata.Fields["degraded"] != nil {
		t.Errorf("decided by the store: %v, %v", response, err)
	}
}

// What a process has decided by its share has numbers, and is shown under the
// limit as it is configured.
func TestLocalDecisionsAreShown(t *testing.T) {
	s := start(t, DefaultOptions(), degradedPolicy)
	s.store.decided = func(_ []algorithm.Ask, out []algorithm.Decision) {
		out[0] = algorithm.Decision{Outcome: algorithm.Allowed, Degraded: true, Remaining: 2, After: 1, Reset: 60e9}
	}
	response, err := s.ask(t, "(local=1)")
	if got, want := show(response, err), "OK OK:2/9@60"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := headersOf(response), "RateLimit-Policy: \"local\";q=9;w=3600\nRateLimit: \"local\";r=2;t=60"; got != want {
		t.Errorf("got headers\n%s\nwant\n%s", got, want)
	}
}
