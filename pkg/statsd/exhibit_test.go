package statsd

import (
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

var update = flag.Bool("update", false, "write testdata anew")

// scrape returns what Prometheus would read.
func scrape(t *testing.T, tally *Tally, o ExhibitOptions) string {
	t.Helper()
	e, err := NewExhibit(tally, o)
	if err != nil {
		t.Fatal(err)
	}
	tally.Answered(4*time.Millisecond, 3)
	tally.Answered(70*time.Millisecond, 1)
	tally.Called("Check", 8*time.Millisecond)
	registry := prometheus.NewRegistry()
	registry.MustRegister(e)
	return read(t, registry)
}

func read(t *testing.T, registry *prometheus.Registry) string {
	t.Helper()
	w := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

// busy is a tally that has counted something of each kind.
func busy(t *testing.T) *Tally {
	t.Helper()
	const policy = `domain: edge
descriptors:
  - {key: user, rate_limit: &l {unit: day, requests_per_unit: 9}}
  - {key: path, value: /api, descriptors: [{key: user, rate_limit: *l, descriptors: [{key: method, rate_limit: *l}]}]}
`
	rules := compile(t, policy)
	tally := NewTally(Options{Methods: []string{"Check", "List"}})
	s := tally.Sheet(rules)
	for range 3 {
		ask(t, s, rules, "edge", entriesOf("user=u"))
		ask(t, s, rules, "edge", entriesOf("path=/api user=u"))
		ask(t, s, rules, "edge", entriesOf("path=/api user=u method=GET"))
	}
	entries := entriesOf("path=/api user=u")
	l := rules.Domain([]byte("edge")).Match(entries).Limits[0]
	s.Count(l, entries, &algorithm.Ask{Limit: l.Limit, Hits: 1, Shadow: true}, &algorithm.Decision{Outcome: algorithm.Denied})
	s.Count(l, entries, &algorithm.Ask{Limit: l.Limit, Hits: 2}, &algorithm.Decision{Outcome: algorithm.Allowed, Before: 6, After: 8})
	bring(t, s, rules, "edge", entriesOf("o=v"))
	tally.UnknownDomain([]byte("other"), 2)
	tally.Failed(true)
	tally.Failed(false)
	tally.Shadowed()
	return tally
}

// mappings is the file that Envoy Gateway mounts, as far as it has one of each kind, with the older name of a field.
const mappings = `mappings:
- match: "ratelimit.service.rate_limit.*.*.total_hits"
  name: "hits_total"
  timer_type: "histogram"
  labels: {domain: "$1", key1: "$2"}
- match: "ratelimit.service.rate_limit.*.*.*.total_hits"
  name: "hits_total"
  labels: {domain: "$1", key1: "$2", key2: "$3"}
- match: "ratelimit_server.*.response_time"
  name: "took"
  timer_type: histogram
  scale: 0.001
  histogram_options: {buckets: [0.01, 0.1]}
  labels: {grpc_method: "$1"}
- {match: ., match_type: regex, action: drop, name: dropped}
`

func TestScrape(t *testing.T) {
	sources := []Source{func(tell func(Metric)) {
		tell(Metric{Name: "ratelimit.service.config_load_success", Value: 2})
		tell(Metric{Name: "ratelimit.redis_pool.cx_active", Value: 7, Gauge: true})
		tell(Metric{Name: "ratelimit.memcache.multiget", Value: 8, Tags: map[string]string{"code": "success"}})
		tell(Metric{Name: "ratelimit.memcache.multiget", Value: 9, Tags: map[string]string{"code": "error"}})
	}}
	for name, o := range map[string]ExhibitOptions{
		"built_in":     {Sources: sources},
		"milliseconds": {Milliseconds: true},
		"tags":         {Tags: map[string]string{"zone": "z1", "the app": "rl"}, Sources: sources},
		"own":          {Mapping: mappings},
		"summary":      {Mapping: "mappings: []\n"},
		"together":     {Mapping: "mappings: [{match: ratelimit_server.*.response_time, name: took, observer_type: histogram}]\n"},
	} {
		got, path := scrape(t, busy(t), o), filepath.Join("testdata", name+".txt")
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s: -update writes what it is now:\n%s", path, got)
		}
	}
}

// Counts go on from one scrape to the next.
func TestScrapeAgain(t *testing.T) {
	tally := busy(t)
	e, err := NewExhibit(tally, ExhibitOptions{})
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(e)
	first := read(t, registry)
	if second := read(t, registry); second != first {
		t.Errorf("without a request it is another:\n%s", second)
	}
	tally.Answered(time.Millisecond, 1)
	if got := read(t, registry); !strings.Contains(got, "ratelimit_service_total_requests{grpc_method=\"ShouldRateLimit\"} 1\n") {
		t.Error(got)
	}
}

// A mapping with a mistake is none.
// Quantiles and buckets that are none, and tags with names that Prometheus keeps
// for itself, cost nothing else.
func TestNonsenseIsLeftOut(t *testing.T) {
	for _, kind := range []string{
		"timer_type: summary, summary_options: {quantiles: [{quantile: -5, error: 0.1}, {quantile: .nan, error: 0.1}, {quantile: 7, error: 0.1}, {quantile: .inf, error: 1}]}",
		"timer_type: histogram, histogram_options: {buckets: [.nan, -1, 1, 1, 0, .inf, -.inf]}",
		"timer_type: histogram, scale: 0",
		"timer_type: summary, scale: .nan",
	} {
		text := scrape(t, busy(t), ExhibitOptions{
			Mapping: "mappings: [{match: 'ratelimit_server.*.response_time', name: rt, " + kind + "}]",
			Tags:    map[string]string{"": "a", "le": "b", "quantile": "c", "__name__": "d", "zone": "\xff"},
		})
		const labels = `{_le="b",_name__="d",_quantile="c",zone="_"}`
		if !strings.Contains(text, "rt_count"+labels) || !strings.Contains(text, "ratelimit_service_call_should_rate_limit") {
			t.Errorf("%s:\n%s", kind, text)
		}
	}
}

func TestBadMappings(t *testing.T) {
	for _, text := range []string{"mappings: [", "mappings: [{match: a.b}]", "mappings: [{match: a.b, name: c, colour: red}]", "mappings: [{match: '(', match_type: regex, name: c}]"} {
		if _, err := NewExhibit(NewTally(Options{}), ExhibitOptions{Mapping: text}); err == nil || !strings.HasPrefix(err.Error(), "mapping: ") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// Older mapping files have buckets and quantiles beside the other fields, of which those count that the kind of metric has.
func TestOlderMappings(t *testing.T) {
	for name, row := range map[string]struct{ text, want string }{
		"buckets":     {"mappings: [{match: ratelimit_server.*.response_time, name: took, timer_type: histogram, buckets: [1, 20], quantiles: [{quantile: 0.5}]}]", `took_bucket{le="20"} `},
		"of defaults": {"defaults: {timer_type: histogram, buckets: [1, 20]}\nmappings: [{match: ratelimit_server.*.response_time, name: took, quantiles: [{quantile: 0.5}]}]", `took_bucket{le="20"} `},
		"quantiles":   {"mappings: [{match: ratelimit_server.*.response_time, name: took, timer_type: summary, buckets: [1, 20], quantiles: [{quantile: 0.5, error: 0.05}]}]", `took{quantile="0.5"} `},
		"both":        {"mappings: [{match: ratelimit_server.*.response_time, name: took, observer_type: histogram, buckets: [1, 20], histogram_options: {buckets: [1, 30]}}]", `took_bucket{le="30"} `},
	} {
		if got := scrape(t, busy(t), ExhibitOptions{Mapping: row.text}); !strings.Contains(got, row.want) {
			t.Errorf("%s: there is no %s in\n%s", name, row.want, got)
		}
	}
}
