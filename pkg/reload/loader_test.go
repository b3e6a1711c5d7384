package reload

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ratelimitd/ratelimitd/pkg/descriptors"
)

// policy is a file that limits domain to n requests an hour.
func policy(domain string, n int) string {
	return fmt.Sprintf("domain: %s\ndescriptors:\n  - key: a\n    rate_limit: {unit: hour, requests_per_unit: %d}\n", domain, n)
}

// recorder keeps what a loader hands on and logs.
type recorder struct {
	*Loader
	registry *prometheus.Registry

	mu      sync.Mutex
	applied []string // "domain=requests …" of each set of rules
	log     bytes.Buffer
}

func newRecorder(t *testing.T, dir string) *recorder {
	t.Helper()
	r := &recorder{registry: prometheus.NewRegistry()}
	loader, err := New(Options{
		Dir: dir, Apply: r.apply, Registerer: r.registry,
		Files: fstest.MapFS{"embedded.yaml": {Data: []byte(policy("embedded", 1))}},
		Log:   slog.New(slog.NewTextHandler(lockedWriter{r}, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	r.Loader = loader
	return r
}

func (r *recorder) apply(rules *descriptors.Rules) {
	var words []string
	for _, limit := range rules.Limits() {
		words = append(words, fmt.Sprintf("%s=%d", limit.Rule.Domain.Name, limit.Limit.Requests))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.applied = append(r.applied, strings.Join(words, " "))
}

func (r *recorder) history() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.applied, ", ")
}

func (r *recorder) logged() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.String()
}

// metric returns the value of a metric with one label at most.
func (r *recorder) metric(t *testing.T, name, label string) float64 {
	t.Helper()
	families, err := r.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.Metric {
			if family.GetName() == name && (label == "" || m.Label[0].GetValue() == label) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	t.Fatalf("no metric %s %s", name, label)
	return 0
}

type lockedWriter struct{ r *recorder }

func (w lockedWriter) Write(p []byte) (int, error) {
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	return w.r.log.Write(p)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestLoadTakesChangesAndKeepsTheLastGoodRules(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a.yaml"), filepath.Join(dir, "b.yaml")
	r := newRecorder(t, dir)
	for _, step := range []struct {
		what string
		do   func()
		want string // what has been handed on
		err  string // how the error in force begins
	}{
		{"no files yet", func() {}, "", "no policy files (*.yaml, *.yml) in " + dir},
		{"a first file", func() { write(t, a, policy("a", 1)) }, "a=1", ""},
		{"nothing", func() {}, "a=1", ""},
		{"the same text again", func() { write(t, a, policy("a", 1)) }, "a=1", ""},
		{"a second file, bad", func() { write(t, b, "domain: b\ndescriptors: [{key: k, rate_limit: {unlimied: true}}]\n") }, "a=1", "b.yaml:2:"},
		{"still bad", func() {}, "a=1", "b.yaml:2:"},
		{"bad together with a good change", func() { write(t, a, policy("a", 2)) }, "a=1", "b.yaml:2:"},
		{"mended", func() { write(t, b, policy("b", 5)) }, "a=1, a=2 b=5", ""},
		{"half written", func() { write(t, b, policy("b", 6)[:30]) }, "a=1, a=2 b=5", "b.yaml:"},
		{"back as it was", func() { write(t, b, policy("b", 5)) }, "a=1, a=2 b=5", ""},
		{"a file goes", func() { os.Remove(b) }, "a=1, a=2 b=5, a=2", ""},
		{"all files go", func() { os.Remove(a) }, "a=1, a=2 b=5, a=2", "no policy files"},
		{"the directory goes", func() { os.Remove(dir) }, "a=1, a=2 b=5, a=2", "read policies: "},
		{"all is there again", func() { write(t, a, policy("a", 2)) }, "a=1, a=2 b=5, a=2", ""},
	} {
		step.do()
		r.Load()
		status, text := r.Status(), ""
		if status.Err != nil {
			text = status.Err.Error()
		}
		if got := r.history(); got != step.want {
			t.Errorf("%s: handed on %q, want %q", step.what, got, step.want)
		}
		if !strings.HasPrefix(text, step.err) || (text == "") != (step.err == "") {
			t.Errorf("%s: error %q, want %q", step.what, text, step.err)
		}
		good := 1.0
		if text != "" {
			good = 0
		}
		if got := r.metric(t, "ratelimitd_config_last_load_successful", ""); got != good {
			t.Errorf("%s: the metric says %v", step.what, got)
		}
	}
	if n := r.metric(t, "ratelimitd_config_loads_total", "loaded"); n != 5 {
		t.Errorf("%v loads counted, want 5: those that were handed on, and twice what was in force", n)
	}
}

func TestEachErrorIsLoggedOnce(t *testing.T) {
	dir := t.TempDir()
	r := newRecorder(t, dir)
	write(t, dir+"/a.yaml", policy("a", 1))
	r.Load()
	for i := range 5 { // other files change beside the bad one
		write(t, dir+"/bad.yaml", "domain: b\nunlimied: true\n")
		write(t, dir+"/a.yaml", policy("a", i))
		r.Load()
	}
	log := r.logged()
	if n := strings.Count(log, "level=ERROR"); n != 1 {
		t.Errorf("the error is logged %d times:\n%s", n, log)
	}
	for _, want := range []string{"level=ERROR", "bad.yaml:2", "the last good rules stay in force"} {
		if !strings.Contains(log, want) {
			t.Errorf("the log lacks %q:\n%s", want, log)
		}
	}
	if n := r.metric(t, "ratelimitd_config_loads_total", "refused"); n != 5 {
		t.Errorf("%v refused loads counted, want 5", n)
	}
}

func TestOneBadFileWithManyErrorsDoesNotFloodTheLog(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/bad.yaml", "domain: b\ndescriptors:\n"+strings.Repeat("  - {key: k, odd: 1}\n", 200))
	r := newRecorder(t, dir)
	r.Load()
	if n := strings.Count(r.logged(), "\n"); n != maxLines+1 {
		t.Errorf("%d lines in the log, want %d", n, maxLines+1)
	}
}

func TestEmbeddedFiles(t *testing.T) {
	r := newRecorder(t, "")
	r.Load()
	if r.history() != "embedded=1" || r.Status().Err != nil {
		t.Errorf("handed on %q, %v", r.history(), r.Status().Err)
	}
}

// TestFilesMustStayTheSame plays checks at instants: a change is taken when
// two checks saw the same, or when it never comes to rest.
func TestFilesMustStayTheSame(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/a.yaml", policy("a", 1))
	r := newRecorder(t, dir)
	r.Load()
	start := time.Now()
	for _, step := range []struct {
		at       time.Duration
		requests int
		again    bool
		want     string
	}{
		{0, 1, false, "a=1"},
		{100 * time.Millisecond, 2, true, "a=1"},
		{175 * time.Millisecond, 3, true, "a=1"}, // not at rest
		{250 * time.Millisecond, 3, false, "a=1, a=3"},
		{1000 * time.Millisecond, 4, true, "a=1, a=3"},
		{1075 * time.Millisecond, 3, false, "a=1, a=3"}, // as if nothing had been
		{3000 * time.Millisecond, 5, true, "a=1, a=3"},
		{3500 * time.Millisecond, 6, true, "a=1, a=3"},
		{4000 * time.Millisecond, 7, false, "a=1, a=3, a=7"}, // patience is over
	} {
		write(t, dir+"/a.yaml", policy("a", step.requests))
		if again := r.check(start.Add(step.at)); again != step.again {
			t.Errorf("at %v: another check wanted: %v", step.at, again)
		}
		if got := r.history(); got != step.want {
			t.Errorf("at %v: handed on %q, want %q", step.at, got, step.want)
		}
	}
}

func TestNewFailsOnTakenMetrics(t *testing.T) {
	r := newRecorder(t, "")
	if _, err := New(Options{Registerer: r.registry}); err == nil {
		t.Error("two loaders share their metrics")
	}
}

// TestStatusDoesNotWaitForALoad asks for the status while rules are handed on,
// as a health check does while large files are compiled.
func TestStatusDoesNotWaitForALoad(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(policy("a", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	asked := make(chan Status)
	var loader *Loader
	loader, err := New(Options{
		Dir: dir, Registerer: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler),
		Apply: func(*descriptors.Rules) {
			go func() { asked <- loader.Status() }()
			select {
			case s := <-asked:
				if s.Rules != nil {
					t.Error("the rules are in force before they were taken")
				}
			case <-time.After(10 * time.Second):
				t.Error("the status waits for the load")
				go func() { <-asked }()
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	loader.Load()
	if loader.Status().Rules == nil {
		t.Error("no rules")
	}
}

// A directory may be empty or missing where the options say so, but only until it has had policies.
func TestDirectoriesThatMayBeEmpty(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "policies")
	for _, row := range []struct {
		what           string
		empty, missing bool
		exists         bool
		want           string // of the error
	}{
		{"missing", false, false, false, "no such file"},
		{"missing, and may be empty", true, false, false, "no such file"},
		{"missing, and may be", true, true, false, ""},
		{"empty", false, true, true, "no policy files"},
		{"empty, and may be", true, false, true, ""},
	} {
		if row.exists {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		var applied *descriptors.Rules
		l, err := New(Options{
			Dir: dir, MayBeEmpty: row.empty, MayBeMissing: row.missing, Apply: func(r *descriptors.Rules) { applied = r },
			Log: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
		})
		if err != nil {
			t.Fatal(err)
		}
		l.Load()
		if err := l.Status().Err; (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) || (applied != nil) != (err == nil) {
			t.Errorf("%s: %v", row.what, err)
		}
		if row.want != "" || !row.exists {
			continue
		}
		file := filepath.Join(dir, "a.yaml")
		if err := os.WriteFile(file, []byte("domain: a\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		l.Load()
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		l.Load()
		if l.Status().Err == nil || len(l.Status().Rules.Domains()) != 1 {
			t.Errorf("%s: the last policy has gone: %+v", row.what, l.Status())
		}
	}
}
