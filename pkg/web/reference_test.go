package web

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/ratelimitd/ratelimitd/pkg/descriptors"
)

// The limits as envoyproxy/ratelimit writes them, sorted, each once; what only
// ratelimitd knows is told as well as that allows.
func TestLimitLines(t *testing.T) {
	o, policies := newAdmin(t)
	want := `edge.internal: unit=UNKNOWN requests_per_unit=0, shadow_mode: false, quota_mode: false
edge.one_of: unit=SECOND requests_per_unit=1, shadow_mode: false, quota_mode: true
edge.plan_free.user.fixed_window_24h0m0s: unit=DAY requests_per_unit=100, shadow_mode: false, quota_mode: false
edge.plan_free.user.tokens: unit=HOUR requests_per_unit=1000, shadow_mode: false, quota_mode: false
edge.tried: unit=SECOND requests_per_unit=1, shadow_mode: true, quota_mode: false
edge.user: unit=MINUTE requests_per_unit=10, shadow_mode: false, quota_mode: false
`
	if got := get(o, "GET", "/rlconfig", "").Body.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}

	policies.Rules = compiled(t, `domain: d
descriptors:
  - {key: a, value: "x*", rate_limit: {unit: week, requests_per_unit: 1}}
  - {key: b, rate_limit: {unit: year, requests_per_unit: 2}}
  - {key: c, rate_limit: {window: 5m, requests_per_unit: 3}}
  - {key: "d\ne", rate_limit: {unit: month, requests_per_unit: 4}}
`)
	want = `d.a_x*: unit=WEEK requests_per_unit=1, shadow_mode: false, quota_mode: false
d.b: unit=YEAR requests_per_unit=2, shadow_mode: false, quota_mode: false
d.c: unit=5m requests_per_unit=3, shadow_mode: false, quota_mode: false
d.d?e: unit=MONTH requests_per_unit=4, shadow_mode: false, quota_mode: false
`
	if got := get(o, "GET", "/rlconfig", "").Body.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}

	policies.Rules = nil
	if w := get(o, "GET", "/rlconfig", ""); w.Code != http.StatusOK || w.Body.Len() != 0 {
		t.Errorf("without rules: %d %s", w.Code, w.Body)
	}
}

// Names cannot make lines of their own, nor steer a terminal or turn a line round.
func TestNamesStayOnTheirLine(t *testing.T) {
	o, policies := newAdmin(t)
	const name = `"a\n\r\t\v\e[2J\u009b2J\N\P\u202e\u200béж<b>"`
	policies.Rules = compiled(t, "domain: "+name+`
descriptors:
  - key: `+name+`
    value: `+name+`
    rate_limit: {unit: week, requests_per_unit: 1}
`)
	const shown = "a?????[2J?2J????éж<b>"
	for path, want := range map[string]string{"/rlconfig": "\n", "/rules": "\n\n\n\n"} {
		w := get(o, "GET", path, "")
		text := w.Body.String()
		if strings.Count(text, "\n") != len(want) || !strings.Contains(text, shown) || strings.ContainsAny(text, "\r\t\v\x1b\u009b\u0085\u2029\u202e\u200b") {
			t.Errorf("%s: %q", path, text)
		}
		if got := w.Header().Get("Content-Type"); got != "text/plain; charset=utf-8" {
			t.Errorf("%s is %s", path, got)
		}
	}
}

func compiled(t *testing.T, text string) *descriptors.Rules {
	t.Helper()
	rules, err := descriptors.Compile([]descriptors.File{{Name: "p.yaml", Text: []byte(text)}}, descriptors.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

func TestStats(t *testing.T) {
	o, _ := newAdmin(t)
	var got struct {
		CommandLine []string       `json:"cmdline"`
		Memory      map[string]any `json:"memstats"`
	}
	if err := json.Unmarshal(get(o, "GET", "/stats", "").Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if strings.Join(got.CommandLine, " ") != "ratelimit --compat" || got.Memory["HeapAlloc"] == 0.0 || got.Memory["Sys"] == nil {
		t.Errorf("got %+v", got)
	}
}

// With a list elsewhere, it is wherever there is no page, and closed as those
// are.
func TestListElsewhere(t *testing.T) {
	o, _ := newAdmin(t)
	o.Elsewhere = List
	want := `/: this list
/debug/pprof/: profiles of the running program
/log_level: the log level; PUT debug, info, warn or error to change it
/metrics: metrics for Prometheus
/rlconfig: the limits in force, one a line
/rules: the rules in force
/rules.json: the same for programs
/settings: the settings in force and where each comes from
/stats: command line and memory of the process
/status: version, readiness, the last load of the policy files
`
	for _, path := range []string{"/", "/no/such"} {
		if w := get(o, "GET", path, ""); w.Code != http.StatusOK || w.Body.String() != want {
			t.Errorf("%s: %d\n%s", path, w.Code, w.Body)
		}
	}
	if w := get(o, "GET", "/status", ""); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "v1.2.3") {
		t.Errorf("a page that there is: %d\n%s", w.Code, w.Body)
	}
	o.Token = "correct-horse-battery"
	if w := get(o, "GET", "/", ""); w.Code != http.StatusUnauthorized {
		t.Errorf("without the token: %d", w.Code)
	}
}
