package integration

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// What Envoy asks about a request, and when it does not ask at all. docs/envoy.md tells all of it; a limit that is not asked
// about limits nothing.

// perRoute begins the configuration of a route for the filter of the given name.
const perRoute = `
  typed_per_filter_config:
    %s:
      "@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimitPerRoute
      %s
`

const filterName = "envoy.filters.http.ratelimit"

// askedRoutes are the routes of TestWhatEnvoyAsks.
var askedRoutes = `
- match: {prefix: /two}
  route:
    cluster: backend
    rate_limits:
      - actions: [{request_headers: {header_name: x-user-id, descriptor_key: user}}]
      - actions: [{generic_key: {descriptor_key: route, descriptor_value: two}}, {request_headers: {header_name: x-plan, descriptor_key: plan}}]
- match: {prefix: /path}
  route:
    cluster: backend
    rate_limits:
      - actions: [{request_headers: {header_name: ":path", descriptor_key: path}}]
- match: {prefix: /no-query}
  route:
    cluster: backend
    rate_limits:
      - actions:
          - extension:
              name: envoy.rate_limit_descriptors.expr
              typed_config:
                "@type": type.googleapis.com/envoy.extensions.rate_limit_descriptors.expr.v3.Descriptor
                descriptor_key: path
                text: request.url_path
- match: {prefix: /anonymous}
  route:
    cluster: backend
    rate_limits:
      - actions: [{request_headers: {header_name: x-user-id, descriptor_key: user}}]
      - actions:
          - header_value_match:
              descriptor_key: user
              descriptor_value: nobody
              expect_match: false
              headers: [{name: x-user-id, present_match: true}]
          - remote_address: {}
- match: {prefix: /cost}
  route: {cluster: backend}` + fmt.Sprintf(perRoute, filterName, `rate_limits:
        - actions: [{generic_key: {descriptor_key: by, descriptor_value: header}}]
          hits_addend: {format: "%REQ(x-cost)%"}`) + `
- match: {prefix: /guarded-cost, headers: [{name: x-cost, string_match: {safe_regex: {regex: "[0-9]{1,6}"}}}]}
  route: {cluster: backend}` + fmt.Sprintf(perRoute, filterName, `rate_limits:
        - actions: [{generic_key: {descriptor_key: by, descriptor_value: guarded}}]
          hits_addend: {format: "%REQ(x-cost)%"}`) + `
- match: {prefix: /guarded-cost}
  direct_response: {status: 400}
- match: {prefix: /ignored-cost}
  route:
    cluster: backend
    rate_limits:
      - actions: [{generic_key: {descriptor_key: by, descriptor_value: number}}]
        hits_addend: {number: 5}
- match: {prefix: /afterwards}
  route: {cluster: backend}` + fmt.Sprintf(perRoute, filterName, `rate_limits:
        - actions: [{generic_key: {descriptor_key: when, descriptor_value: before}}]
        - actions: [{generic_key: {descriptor_key: when, descriptor_value: after}}]
          hits_addend: {number: 7}
          apply_on_stream_done: true`) + `
- match: {prefix: /wrong-name}
  route:
    cluster: backend
    rate_limits:
      - actions: [{generic_key: {descriptor_key: of, descriptor_value: route}}]` + fmt.Sprintf(perRoute, "ratelimit", `rate_limits:
        - actions: [{generic_key: {descriptor_key: of, descriptor_value: filter}}]`) + `
- match: {prefix: /right-name}
  route:
    cluster: backend
    rate_limits:
      - actions: [{generic_key: {descriptor_key: of, descriptor_value: route}}]` + fmt.Sprintf(perRoute, filterName, `rate_limits:
        - actions: [{generic_key: {descriptor_key: of, descriptor_value: filter}}]`) + `
- match: {prefix: /direct}
  direct_response: {status: 200}` + fmt.Sprintf(perRoute, filterName, `rate_limits:
        - actions: [{generic_key: {descriptor_key: route, descriptor_value: direct}}]`) + `
- match: {prefix: /redirect}
  redirect: {path_redirect: /}` + fmt.Sprintf(perRoute, filterName, `rate_limits:
        - actions: [{generic_key: {descriptor_key: route, descriptor_value: redirect}}]`)

// Each row is a request and the calls that Envoy makes for it.
func TestWhatEnvoyAsks(t *testing.T) {
	scribe, address := startScribe(t)
	envoy := startEnvoy(t, envoyOptions{ratelimitd: []string{address}, routes: strings.TrimPrefix(askedRoutes, "\n")})
	client := envoy.client(t, "")
	for _, row := range []struct {
		path    string
		headers []string
		want    string
	}{
		{"/two", []string{"x-user-id: alice", "x-plan: gold"}, "[user=alice] [route=two plan=gold]"},
		{"/two", []string{"x-user-id: alice"}, "[user=alice]"}, // an action that finds nothing drops its descriptor
		{"/two", nil, ""}, // no descriptor, no call
		{"/two", []string{"x-user-id: "}, "[user=]"}, // there, and empty
		{"/path/a?n=1", nil, "[path=/path/a?n=1]"},   // with the query string
		{"/no-query/a?n=1", nil, "[path=/no-query/a]"},
		{"/anonymous", []string{"x-user-id: alice"}, "[user=alice]"},
		{"/anonymous", nil, "[user=nobody remote_address=127.0.0.1]"},

		{"/cost", []string{"x-cost: 7"}, "[by=header]*7"},
		{"/cost", []string{"x-cost: 0"}, "[by=header]*0"},
		{"/cost", []string{"x-cost: 2.5"}, "[by=header]*2"},
		{"/cost", []string{"x-cost: 1000000000"}, "[by=header]*1000000000"},
		{"/cost", []string{"x-cost: 1000000001"}, ""}, // a cost that cannot be drops the descriptor
		{"/cost", []string{"x-cost: -4"}, ""},
		{"/cost", []string{"x-cost: much"}, ""},
		{"/cost", nil, "[by=header]*1"}, // by the header mutation of deploy/envoy/envoy.yaml
		{"/guarded-cost", []string{"x-cost: 7"}, "[by=guarded]*7"},
		{"/guarded-cost", []string{"x-cost: 7x"}, ""}, // answered 400 by another route
		{"/ignored-cost", nil, "[by=number]"},
		{"/afterwards", nil, "[when=before], [when=after]*7"}, // two calls

		{"/wrong-name", nil, "[of=route]"},
		{"/right-name", nil, "[of=filter]"},
		{"/direct", nil, ""}, // there is no cluster
		{"/redirect", nil, ""},
	} {
		client.mustGet(t, row.path, row.headers...)
		envoy.waitIdle(t)
		if got := scribe.take(); got != row.want {
			t.Errorf("%s %q: Envoy asked about %q, want %q", row.path, row.headers, got, row.want)
		}
	}
}

// What is charged after the response is charged for refused requests too.
func TestRefusedRequestsAreChargedAfterwards(t *testing.T) {
	server := serve(t, policyDir(t, `
domain: edge
descriptors:
  - {key: when, value: before, rate_limit: {requests_per_unit: 0, unit: hour}}
  - {key: when, value: after, rate_limit: {requests_per_unit: 1000, window: 100h}}
`))
	envoy := startEnvoy(t, envoyOptions{ratelimitd: []string{server.grpc}, routes: strings.TrimPrefix(askedRoutes, "\n")})
	ask{1, "/afterwards", "", nil, http.StatusTooManyRequests}.run(t, envoy)
	envoy.waitIdle(t)
	if got := server.metric(t, `ratelimitd_hits_total{domain="edge",rule="edge/when=after"}`); got != "7" {
		t.Errorf("%q hits were charged, want 7", got)
	}
}

// metric returns the value of a series that /metrics shows; empty if it does not.
func (s *ratelimitd) metric(t *testing.T, series string) string {
	t.Helper()
	_, after, _ := strings.Cut(s.metrics(t), "\n"+series+" ")
	value, _, _ := strings.Cut(after, "\n")
	return value
}

// A route with rate limits of its own leaves those of its virtual host out, unless it says otherwise.
func TestRouteReplacesVirtualHost(t *testing.T) {
	const host = "                      domains: [\"*\"]\n"
	routes := `- match: {prefix: /own}
  route:
    cluster: backend
    rate_limits: [{actions: [{generic_key: {descriptor_key: of, descriptor_value: route}}]}]
- match: {prefix: /both}
  route:
    cluster: backend
    rate_limits: [{actions: [{generic_key: {descriptor_key: of, descriptor_value: route}}]}]` + fmt.Sprintf(perRoute, filterName, `vh_rate_limits: INCLUDE`) + `
- match: {prefix: /per-filter}
  route: {cluster: backend}` + fmt.Sprintf(perRoute, filterName, `rate_limits: [{actions: [{generic_key: {descriptor_key: of, descriptor_value: filter}}]}]`) + `
- match: {prefix: /none}
  route: {cluster: backend}
`
	scribe, address := startScribe(t)
	envoy := startEnvoy(t, envoyOptions{ratelimitd: []string{address}, routes: routes, edit: func(text string) string {
		return strings.Replace(text, host, host+"                      rate_limits: [{actions: [{generic_key: {descriptor_key: of, descriptor_value: host}}]}]\n", 1)
	}})
	client := envoy.client(t, "")
	for path, want := range map[string]string{
		"/none": "[of=host]", "/own": "[of=route]", "/both": "[of=route] [of=host]", "/per-filter": "[of=filter]",
	} {
		client.mustGet(t, path)
		if got := scribe.take(); got != want {
			t.Errorf("%s: Envoy asked about %q, want %q", path, got, want)
		}
	}
}

// Whose address remote_address is. By Envoy's own default, which deploy/envoy/envoy.yaml does not keep, a client chooses it.
func TestWhoseAddress(t *testing.T) {
	const trust = "                use_remote_address: true\n                xff_num_trusted_hops: 0\n"
	for name, row := range map[string]struct{ settings, want string }{
		"the default of Envoy": {"", "[remote_address=192.0.2.9]"},
		"as deployed":          {trust, "[remote_address=127.0.0.1]"},
		"one hop":              {strings.Replace(trust, "hops: 0", "hops: 1", 1), "[remote_address=192.0.2.9]"},
		"two hops":             {strings.Replace(trust, "hops: 0", "hops: 2", 1), "[remote_address=198.51.100.1]"},
	} {
		t.Run(name, func(t *testing.T) {
			scribe, address := startScribe(t)
			envoy := startEnvoy(t, envoyOptions{ratelimitd: []string{address}, edit: func(text string) string {
				if !strings.Contains(text, trust) {
					t.Fatal("envoy.yaml does not say whom it trusts as it did")
				}
				return strings.Replace(text, trust, row.settings, 1)
			}})
			envoy.client(t, "").mustGet(t, "/ip", "x-forwarded-for: 198.51.100.1, 192.0.2.9")
			if got := scribe.take(); got != row.want {
				t.Errorf("Envoy asked about %q, want %q", got, row.want)
			}
		})
	}
}

// Two filters make two calls, one after the other.
func TestTwoFiltersMakeTwoCalls(t *testing.T) {
	scribe, address := startScribe(t)
	envoy := startEnvoy(t, envoyOptions{ratelimitd: []string{address}, edit: func(text string) string {
		text = withSamples(t, text, envoySamples(t))
		return strings.ReplaceAll(text, `"timeout":"0.1s"`, `"timeout":"10s"`)
	}, routes: `- match: {prefix: /staged}
  route:
    cluster: backend
    rate_limits:
      - actions: [{generic_key: {descriptor_key: stage, descriptor_value: "0"}}]
      - {stage: 1, actions: [{generic_key: {descriptor_key: stage, descriptor_value: "1"}}]}
`})
	envoy.client(t, "").mustGet(t, "/staged")
	if got := scribe.take(); got != "[stage=0], [stage=1]" && got != "[stage=1], [stage=0]" {
		t.Errorf("Envoy asked about %q", got)
	}
}

// metrics returns the text of /metrics.
func (s *ratelimitd) metrics(t *testing.T) string {
	t.Helper()
	resp, err := http.Get("http://" + s.http + "/metrics")
	return bodyOf(t, resp, err)
}

// bodyOf returns what was answered to a request, all of it.
func bodyOf(t *testing.T, resp *http.Response, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
