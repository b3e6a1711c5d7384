package web

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ratelimitd/ratelimitd/pkg/descriptors"
)

const policyFile = `domain: edge
descriptors:
  - key: user
    rate_limit: {requests_per_unit: 10, unit: minute, algorithm: token_bucket, burst: 5, on_store_error: allow}
  - key: plan
    value: free
    descriptors:
      - key: user
        rate_limits:
          - {requests_per_unit: 100, unit: day, calendar: true, time_zone: Europe/Paris}
          - {name: tokens, requests_per_unit: 1000, unit: hour, overdraw: true}
  - {key: tried, shadow_mode: true, rate_limit: {requests_per_unit: 1, unit: second}}
  - {key: one_of, quota_mode: true, priority: sheddable, rate_limit: {requests_per_unit: 1, unit: second}}
  - key: internal
    rate_limit: {unlimited: true}
  - key: open
`

func newAdmin(t testing.TB) (*AdminOptions, *Policies) {
	t.Helper()
	rules, err := descriptors.Compile([]descriptors.File{{Name: "edge.yaml", Text: []byte(policyFile)}}, descriptors.Options{})
	if err != nil {
		t.Fatal(err)
	}
	policies := &Policies{Rules: rules, Since: time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)}
	current := func() Policies { return *policies }
	return &AdminOptions{
		Version:  "v1.2.3",
		Health:   func() Health { return Health{Ready: true} },
		Policies: current,
		Further:  ReferencePages(current, []string{"ratelimit", "--compat"}),
		Metrics:  prometheus.NewRegistry(),
		Settings: []Setting{{"redis_password", "********", "RATELIMITD_REDIS_PASSWORD"}},
		LogLevel: new(slog.LevelVar),
		Log:      slog.New(slog.DiscardHandler),
	}, policies
}

func get(o *AdminOptions, method, path, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Host = "localhost:6070"
	Admin(*o).ServeHTTP(w, r)
	return w
}

func TestRulesAsText(t *testing.T) {
	o, policies := newAdmin(t)
	want := "revision " + policies.Rules.Revision() + `, in force since 2026-12-01T10:00:00Z

domain edge, counting precise
  user              10 per 1m, token_bucket, burst 5, on store error allow          edge.yaml:3
  plan=free         no limit of its own                                             edge.yaml:5
  plan=free / user  100 per 24h, fixed_window, calendar of Europe/Paris edge.yaml:8
  plan=free / user  1000 per 1h, fixed_window, overdraw, named tokens        edge.yaml:8
  tried 1 per 1s, fixed_window, shadow edge.yaml:12
  one_of 1 per 1s, fixed_window, quota, sheddable edge.yaml:13
  internal          unlimited                                                       edge.yaml:14
  open              no limit                                                        edge.yaml:16
`
	w := get(o, "GET", "/rules", "")
	if squeeze(w.Body.String()) != squeeze(want) {
		t.Errorf("got\n%s\nwant\n%s", w.Body, want)
	}

	policies.Err, policies.Failed = errors.New("edge.yaml:1:1: no"), policies.Since.Add(time.Hour)
	if got := get(o, "GET", "/rules", "").Body.String(); !strings.HasPrefix(got, "THE NEWEST POLICIES ARE NOT IN FORCE, since 2026-12-01T11:00:00Z:\nedge.yaml:1:1: no\n\nrevision ") {
		t.Errorf("got\n%s", got)
	}
	policies.Rules = nil
	if w := get(o, "GET", "/rules", ""); w.Code != 503 || !strings.Contains(w.Body.String(), "no rules are in force") {
		t.Errorf("got %d\n%s", w.Code, w.Body)
	}
}

// squeeze makes all runs of spaces one.
func squeeze(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.Join(strings.Fields(lines[i]), " ")
	}
	return strings.Join(lines, "\n")
}

func TestRulesAsJSON(t *testing.T) {
	o, policies := newAdmin(t)
	var got rulesView
	if err := json.Unmarshal(get(o, "GET", "/rules.json", "").Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Domains) != 1 || got.Domains[0].Counting != "precise" || got.Revision != policies.Rules.Revision() {
		t.Fatalf("got %+v", got)
	}
	var limits []string
	for _, rule := range got.Domains[0].Rules {
		for _, limit := range rule.Limits {
			limits = append(limits, limit.Algorithm+" "+limit.Window+" "+limit.TimeZone)
		}
	}
	if text := strings.Join(limits, ", "); text != "token_bucket 1m , fixed_window 24h Europe/Paris, fixed_window 1h , fixed_window 1s , fixed_window 1s " {
		t.Errorf("limits %s", text)
	}
	policies.Rules = nil
	if w := get(o, "GET", "/rules.json", ""); w.Code != 503 {
		t.Errorf("got %d", w.Code)
	}
}

func TestStatus(t *testing.T) {
	o, policies := newAdmin(t)
	policies.Err, policies.Failed = errors.New("a.yaml:1:1: no\nb.yaml:1:1: no"), policies.Since
	want := `{
  "version": "v1.2.3",
  "ready": true,
  "revision": "` + policies.Rules.Revision() + `",
  "in_force_since": "2026-12-01T10:00:00Z",
  "domains": 1,
  "limits": 5,
  "load_errors": [
    "a.yaml:1:1: no",
    "b.yaml:1:1: no"
  ],
  "load_failed_at": "2026-12-01T10:00:00Z"
}
`
	if got := get(o, "GET", "/status", "").Body.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestLogLevel(t *testing.T) {
	o, _ := newAdmin(t)
	for _, step := range []struct {
		method, body string
		code         int
		want         string
	}{
		{"GET", "", 200, "info\n"},
		{"PUT", "debug\n", 200, "debug\n"},
		{"PUT", "loud", 400, "\"loud\" is no level; one of debug, info, warn, error\n"},
		{"GET", "", 200, "debug\n"},
		{"POST", "error", 405, "Method Not Allowed\n"},
	} {
		if w := get(o, step.method, "/log_level", step.body); w.Code != step.code || w.Body.String() != step.want {
			t.Errorf("%s %q: got %d %q, want %d %q", step.method, step.body, w.Code, w.Body, step.code, step.want)
		}
	}
}

func TestEveryAdminPageIsThere(t *testing.T) {
	o, _ := newAdmin(t)
	front := get(o, "GET", "/", "").Body.String()
	for _, page := range o.pages() {
		if !strings.Contains(front, page.Path) {
			t.Errorf("%s is not on the front page", page.Path)
		}
		if w := get(o, "GET", page.Path, ""); w.Code != 200 {
			t.Errorf("%s: %d", page.Path, w.Code)
		}
	}
	if w := get(o, "GET", "/debug/pprof/goroutine?debug=1", ""); !strings.Contains(w.Body.String(), "goroutine profile") {
		t.Errorf("no profile: %s", w.Body)
	}
	if w := get(o, "GET", "/settings", ""); !strings.Contains(w.Body.String(), "********") {
		t.Errorf("settings: %s", w.Body)
	}
	if w := get(o, "GET", "/no/such", ""); w.Code != 404 {
		t.Errorf("an unknown page: %d", w.Code)
	}
}
