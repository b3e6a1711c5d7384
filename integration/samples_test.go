package integration

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ratelimitd/ratelimitd/config"
	"github.com/ratelimitd/ratelimitd/pkg/descriptors"
)

// sampleHistory is what happens to one sample. Most of a limit is spent beforehand, by asking ratelimitd itself, so that it
// takes a request or two through Envoy to see the rest.
type sampleHistory struct {
	sample string
	spends []sampleSpend
	asks   []sampleAsk
	window time.Duration // begins not long before; 0 is a minute
}

// sampleSpend charges hits to a descriptor, written as key=value, key=value. They must fit.
type sampleSpend struct {
	domain, descriptor string
	hits               int
}

// sampleAsk is a request through Envoy, a GET unless the path has a method before it.
type sampleAsk struct {
	path    string
	headers []string
	denies  string // the limit that refuses it, as the client knows it; empty: it passes
}

func sampleHistories() []sampleHistory {
	header := func(headers ...string) []string { return headers }
	from := func(address string) []string { return []string{"x-forwarded-for: " + address} }
	key := func(key string) []string { return []string{"x-api-key: " + key} }
	plan := func(plan string, limit int, name string) sampleHistory {
		headers := header("x-plan: "+plan, "x-tenant: acme")
		return sampleHistory{sample: "plan", spends: []sampleSpend{{"edge", "plan=" + plan + ", tenant=acme", limit - 1}}, asks: []sampleAsk{
			{"/app", headers, ""}, {"/app/page", headers, name},
			{"/app", header("x-plan: "+plan, "x-tenant: globex"), ""},
		}}
	}
	algorithm := func(name string, limit int) sampleHistory {
		return sampleHistory{sample: "algorithms/" + name, spends: []sampleSpend{{"algorithms", name + "=alice", limit - 1}}, asks: []sampleAsk{
			{"/" + name, header("x-user-id: alice"), ""}, {"/" + name, header("x-user-id: alice"), name}, {"/" + name, header("x-user-id: bob"), ""},
		}}
	}
	return []sampleHistory{
		{"user", []sampleSpend{{"edge", "user=alice", 9}}, []sampleAsk{
			{"/me", header("x-user-id: alice"), ""},
			{"/me", header("x-user-id: alice"), "user"},
			{"/me", header("x-user-id: bob"), ""},
			{"/me", nil, ""}, // the trap: no header, no limit
		}, 0},
		{"api-key", []sampleSpend{{"edge", "client=acme", 999}, {"edge", "client=importer", 4999}, {"edge", "client=test-checkout", 59}, {"edge", "client=monitoring", 1 << 30}}, []sampleAsk{
			{"/api", key("key-of-acme"), ""},
			{"/api", key("key-of-acme"), "client"},
			{"/api", header("x-api-key: key-of-acme", "x-client: monitoring"), "client"}, // nobody chooses who to be
			{"/api", key("key-of-the-importer"), ""},
			{"/api", key("key-of-the-importer"), "client"},
			{"/api", key("key-of-test-checkout"), ""},
			{"/api", key("key-of-test-checkout"), "client"},
			{"/api", key("key-of-monitoring"), ""},
		}, 0},
		{"ip", []sampleSpend{{"edge", "masked_remote_address=192.0.2.7/32", 19}, {"edge", "masked_remote_address=2001:db8:1:2::/64", 19}}, []sampleAsk{
			{"/public", from("192.0.2.7"), ""},
			{"/public", from("192.0.2.7"), "masked_remote_address/10s"},
			{"/public", from("192.0.2.8"), ""},
			{"/public", from("2001:db8:1:2::1"), ""},
			{"/public", from("2001:DB8:1:2:ffff:0:0:9"), "masked_remote_address/10s"},
			{"/public", from("2001:db8:1:3::1"), ""},
		}, 10 * time.Second},
		{"ip", []sampleSpend{{"edge", "scope=network, masked_remote_address=198.51.100.0/24", 2999}, {"edge", "scope=network, masked_remote_address=2001:db8:7::/48", 2999}}, []sampleAsk{
			{"/public", from("198.51.100.1"), ""},
			{"/public", from("198.51.100.254"), "scope/masked_remote_address"},
			{"/public", from("2001:db8:7:1::1"), ""},
			{"/public", from("2001:db8:7:2::1"), "scope/masked_remote_address"},
		}, 0},
		{"endpoint", []sampleSpend{{"edge", "endpoint=search", 599}}, []sampleAsk{
			{"/search?q=1", nil, ""}, {"/search?q=2", nil, "endpoint"},
		}, 0},
		{"endpoint", []sampleSpend{{"edge", "path=/orders/9/refund, method=POST", 9}, {"edge", "path=/orders/9, method=GET", 999}, {"edge", "path=/orders/9, method=DELETE", 99}}, []sampleAsk{
			{"POST /orders/17/refund", nil, ""},
			{"PUT /orders/18/refund?again=1", nil, "path/method"},
			{"/orders/17?n=1", nil, ""},
			{"/orders/18?n=2", nil, "path/method"},
			{"POST /orders", nil, ""},
			{"PUT /orders/17", nil, "path/method"},
		}, 0},
		plan("free", 100, "free"), plan("starter", 1000, "starter"), plan("business", 10000, "business"),
		plan("enterprise", 50000, "enterprise"), plan("invented", 100, "other"),
		{"login", []sampleSpend{{"login", "masked_remote_address=192.0.2.7/32", 4}}, []sampleAsk{
			{"POST /login", header("x-forwarded-for: 192.0.2.7", "x-account: alice"), ""},
			{"POST /login", header("x-forwarded-for: 192.0.2.7", "x-account: bob"), "masked_remote_address/1m"},
			{"POST /login", from("192.0.2.7"), "masked_remote_address/1m"}, // leaving the account out is no way around
		}, 0},
		{"login", []sampleSpend{{"login", "account=carol", 19}, {"login", "one_time_password=carol", 4}}, []sampleAsk{
			{"POST /login", header("x-forwarded-for: 192.0.2.17", "x-account: carol"), ""},
			{"POST /login", header("x-forwarded-for: 192.0.2.18", "x-account: carol"), "account"},
			{"POST /one-time-password", header("x-account: carol"), ""},
			{"POST /one-time-password", header("x-account: carol"), "one_time_password"},
		}, 0},
		{"cost", []sampleSpend{{"edge", "points=alice", 150}, {"edge", "points=bob", 199}}, []sampleAsk{
			{"/report", header("x-user-id: alice"), ""}, {"/report", header("x-user-id: alice"), "points"},
			{"/report", header("x-user-id: bob"), "points"},
			{"/list", header("x-user-id: bob"), ""}, // what did not fit was not charged
		}, 0},
		{"llm", []sampleSpend{{"llm", "requests=bob", 19}}, []sampleAsk{
			{"/chat", header("x-user-id: alice", "x-ask-tokens: 60000"), ""},
			{"/chat", header("x-user-id: alice", "x-ask-tokens: 70000"), ""}, // 40,000 are left, and it is charged in full
			{"/chat", header("x-user-id: alice", "x-ask-tokens: 1"), "tokens/1h"},
			{"/chat", header("x-user-id: bob", "x-ask-tokens: 1"), ""},
			{"/chat", header("x-user-id: bob", "x-ask-tokens: 1"), "requests"},
		}, 0},
		{"windows", []sampleSpend{{"edge", "account=acme", 19}}, []sampleAsk{
			{"/account", header("x-account: acme"), ""}, {"/account", header("x-account: acme"), "account/10s"},
		}, 10 * time.Second},
		{"calendar", []sampleSpend{{"edge", "subscription=acme", 9999}}, []sampleAsk{
			{"/billed", header("x-tenant: acme"), ""}, {"/billed", header("x-tenant: acme"), "subscription/24h"},
		}, 0},
		{"shadow", []sampleSpend{{"edge", "trial=partner, partner=acme", 20}, {"edge", "partner=acme", 98}}, []sampleAsk{
			{"/partner", header("x-partner: acme"), ""}, {"/partner", header("x-partner: acme"), ""}, // over the limit on trial
			{"/partner", header("x-partner: acme"), "partner"},
		}, 0},
		{"quota", []sampleSpend{{"edge", "allowance=acme", 99}, {"edge", "pool=all", 998}}, []sampleAsk{
			{"/shared", header("x-tenant: acme"), ""}, {"/shared", header("x-tenant: acme"), ""}, // its own is used up, the pool is not
			{"/shared", header("x-tenant: acme"), "pool"},
			{"/shared", header("x-tenant: globex"), ""}, // the pool is used up, its own is not
		}, 0},
		{"priority", []sampleSpend{
			{"edge", "traffic=checkout, tenant=acme", 599}, {"edge", "traffic=export, tenant=acme", 59}, {"edge", "traffic=catalogue, tenant=acme", 599},
		}, []sampleAsk{
			{"/checkout", header("x-tenant: acme"), ""}, {"/checkout", header("x-tenant: acme"), "traffic/tenant"},
			{"/export", header("x-tenant: acme"), ""}, {"/export", header("x-tenant: acme"), "traffic/tenant"},
			{"/catalogue", header("x-tenant: acme"), ""}, {"/catalogue", header("x-tenant: acme"), "traffic/tenant"},
		}, 0},
		algorithm("fixed_window", 10), algorithm("sliding_window_log", 10), algorithm("sliding_window_counter", 10),
		algorithm("token_bucket", 15), algorithm("leaky_bucket", 15),
	}
}

// The samples as the program has them in it, behind an Envoy with all that stands in config/envoy: each request meets the
// limit that it is meant for. In the end every rule of every sample has been met, and has refused something.
func TestSamples(t *testing.T) {
	server := serve(t, "")
	envoy := startEnvoy(t, envoyOptions{ratelimitd: []string{server.grpc}, edit: func(text string) string {
		// As behind a load balancer, so that a test can come from any address.
		text = strings.Replace(text, "xff_num_trusted_hops: 0", "xff_num_trusted_hops: 1", 1)
		text = withSamples(t, text, envoySamples(t))
		return strings.ReplaceAll(text, `"timeout":"0.1s"`, `"timeout":"10s"`)
	}})
	client := envoy.client(t, "")
	for _, h := range sampleHistories() {
		t.Run(h.sample, func(t *testing.T) {
			awayFromBoundary(t, cmp.Or(h.window, time.Minute))
			for _, spend := range h.spends {
				if status := server.spend(t, spend); status != http.StatusOK {
					t.Fatalf("%d hits on %s: status %d", spend.hits, spend.descriptor, status)
				}
			}
			for i, ask := range h.asks {
				ask.run(t, i, client)
				if h.sample == "llm" {
					envoy.waitIdle(t) // for what is charged after the response
				}
			}
		})
	}
	t.Run("global", func(t *testing.T) { globalLimit(t, server, client) })
	t.Run("an unknown API key", func(t *testing.T) {
		if got := client.mustGet(t, "/api", "x-api-key: invented").status; got != http.StatusUnauthorized {
			t.Errorf("status %d, want 401", got)
		}
	})
	envoy.wantNoErrors(t)
	wantEachRuleMet(t, server)

	// Nobody signs in unlimited, while other requests pass.
	server.Kill()
	if got := client.mustGet(t, "/login").status; got != http.StatusServiceUnavailable {
		t.Errorf("/login without ratelimitd: status %d, want 503", got)
	}
	if got := client.mustGet(t, "/me", "x-user-id: alice").status; got != http.StatusOK {
		t.Errorf("/me without ratelimitd: status %d, want 200", got)
	}
}

func (a sampleAsk) run(t *testing.T, i int, c *client) {
	t.Helper()
	method, path, found := strings.Cut(a.path, " ")
	if !found {
		method, path = http.MethodGet, a.path
	}
	got, err := c.send(method, path, a.headers...)
	if err != nil {
		t.Fatal(err)
	}
	want := http.StatusOK
	if a.denies != "" {
		want = http.StatusTooManyRequests
	}
	if got.status != want {
		t.Fatalf("request %d, %s %q: status %d, want %d", i+1, a.path, a.headers, got.status, want)
	}
	if limit := got.header.Get("Ratelimit"); a.denies != "" && !strings.HasPrefix(limit, `"`+a.denies+`";`) {
		t.Errorf("request %d, %s %q: refused by %s, want %s", i+1, a.path, a.headers, limit, a.denies)
	}
}

// globalLimit spends the global limit, which is of a second, again and again, until a request falls into such a second.
func globalLimit(t *testing.T, server *ratelimitd, client *client) {
	if got := client.mustGet(t, "/shop", "x-user-id: carol"); got.status != http.StatusOK {
		t.Fatalf("status %d, want 200", got.status)
	}
	waitFor(t, 20*time.Second, "the global limit to refuse a request", func() bool {
		for hits := 512; hits > 0; hits /= 2 { // what is left, whatever that is
			server.spend(t, sampleSpend{"edge", "generic_key=global", hits})
		}
		got := client.mustGet(t, "/shop", "x-user-id: dave")
		return got.status == http.StatusTooManyRequests && strings.HasPrefix(got.header.Get("Ratelimit"), `"global";`)
	})
}

// spend charges hits over /json, as some other proxy would, and returns the status of the answer.
func (s *ratelimitd) spend(t *testing.T, p sampleSpend) int {
	t.Helper()
	var entries []map[string]string
	for pair := range strings.SplitSeq(p.descriptor, ", ") {
		key, value, _ := strings.Cut(pair, "=")
		entries = append(entries, map[string]string{"key": key, "value": value})
	}
	body, err := json.Marshal(map[string]any{
		"domain":      p.domain,
		"descriptors": []any{map[string]any{"entries": entries, "hitsAddend": p.hits}},
	})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Post("http://"+s.http+"/json", "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

// wantEachRuleMet asks the metrics whether every limit of the samples has decided something, and every rule refused
// something, or would have.
func wantEachRuleMet(t *testing.T, s *ratelimitd) {
	t.Helper()
	text := s.metrics(t)
	counted := func(id, outcomes string) bool {
		pattern := `(?m)^ratelimitd_decisions_total\{domain="[a-z]+",outcome="(` + outcomes + `)",rule="` + regexp.QuoteMeta(id) + `"\} [1-9]`
		return regexp.MustCompile(pattern).MatchString(text)
	}
	files, err := descriptors.ReadFS(config.Policies(), 0)
	if err != nil {
		t.Fatal(err)
	}
	rules, err := descriptors.Compile(files, descriptors.Options{})
	if err != nil {
		t.Fatal(err)
	}
	refused := map[*descriptors.Rule]bool{}
	for _, limit := range rules.Limits() {
		if !counted(limit.ID, ".*") {
			t.Errorf("%s:%d: no request has met %s", limit.Rule.File, limit.Rule.Line, limit.ID)
		}
		refused[limit.Rule] = refused[limit.Rule] || counted(limit.ID, "over_limit|never_fits|shadow_over_limit")
	}
	for rule, ok := range refused {
		if !ok {
			t.Errorf("%s:%d: this rule has refused nothing", rule.File, rule.Line)
		}
	}
}
