package reload

import (
	"bytes"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ratelimitd/ratelimitd/pkg/descriptors"
)

// offers are policies for [Loader.Offer], each from a text.
func offers(texts ...string) []descriptors.File {
	files := make([]descriptors.File, len(texts))
	for i, text := range texts {
		files[i] = descriptors.File{Name: "offer", Text: []byte(text)}
	}
	return files
}

const (
	bad  = "domain: d\ndescriptors: [{key: k, rate_limit: {unimited: true}}]\n"
	more = "domain: a\ndescriptors:\n  - key: more\n    rate_limit: {unit: hour, requests_per_unit: 9}\n"
)

// Files and offers make the rules together. Each part keeps its last good
// state for itself, and what did not fit beside the other part is tried again
// when that one changes.
func TestOffersGoWithFiles(t *testing.T) {
	dir := t.TempDir()
	a := filepath.Join(dir, "a.yaml")
	r := newRecorder(t, dir)
	offer := func(texts ...string) func() error { return func() error { return r.Offer(offers(texts...)) } }
	files := func(text string) func() error {
		return func() error {
			write(t, a, text)
			r.Load()
			return nil
		}
	}
	for _, step := range []struct {
		what  string
		do    func() error
		want  string // the last rules handed on
		count int    // how often some were
		err   string // how the error of the offer begins
		wrong string // how the error in force begins
	}{
		{"files that are bad", files(bad), "", 0, "", "a.yaml:2:"},
		{"an offer beside bad files", offer(policy("b", 1)), "b=1", 1, "", "a.yaml:2:"},
		{"the files are mended", files(policy("a", 1)), "a=1 b=1", 2, "", ""},
		{"the same offer", offer(policy("b", 1)), "a=1 b=1", 2, "", ""},
		{"another offer", offer(policy("b", 2), policy("c", 3)), "a=1 b=2 c=3", 3, "", ""},
		{"a bad offer", offer(bad), "a=1 b=2 c=3", 3, "offer:2:", "offer:2:"},
		{"the same bad offer", offer(bad), "a=1 b=2 c=3", 3, "offer:2:", "offer:2:"},
		{"files beside a bad offer", files(policy("a", 5)), "a=5 b=2 c=3", 4, "", "offer:2:"},
		{"bad files as well", files(bad), "a=5 b=2 c=3", 4, "", "a.yaml:2:"},
		{"a good offer beside bad files", offer(policy("b", 7)), "a=5 b=7", 5, "", "a.yaml:2:"},
		{"files as they were", files(policy("a", 5)), "a=5 b=7", 5, "", ""},
		{"an offer with more of a domain", offer(more), "a=5 a=9", 6, "", ""},
		{"an offer that contradicts the files", offer(policy("a", 1)), "a=5 a=9", 6, "offer:3:", "offer:3:"},
		{"the files make room, and it fits", files(policy("b", 2)), "a=1 b=2", 7, "", ""},
		{"no offer", offer(), "b=2", 8, "", ""},
	} {
		err, text, wrong := step.do(), "", ""
		if err != nil {
			text = err.Error()
		}
		if status := r.Status(); status.Err != nil {
			wrong = status.Err.Error()
		}
		r.mu.Lock()
		got := ""
		if n := len(r.applied); n > 0 {
			got = r.applied[n-1]
		}
		if got != step.want || len(r.applied) != step.count {
			t.Errorf("%s: handed on %d times, last %q, want %d and %q", step.what, len(r.applied), got, step.count, step.want)
		}
		r.mu.Unlock()
		if !strings.HasPrefix(text, step.err) || (text == "") != (step.err == "") {
			t.Errorf("%s: error %q, want %q", step.what, text, step.err)
		}
		if !strings.HasPrefix(wrong, step.wrong) || (wrong == "") != (step.wrong == "") {
			t.Errorf("%s: in force with error %q, want %q", step.what, wrong, step.wrong)
		}
	}
	if got := r.metric(t, "ratelimitd_config_loads_total", "loaded"); got != 9 { // those that were handed on, and once what was in force
		t.Errorf("%v loads are counted", got)
	}
}

// Both errors are told where both parts are bad.
func TestBothErrorsAreTold(t *testing.T) {
	dir := t.TempDir()
	r := newRecorder(t, dir)
	write(t, filepath.Join(dir, "a.yaml"), bad)
	r.Load()
	if err := r.Offer(offers(bad)); err == nil {
		t.Error("the bad offer is taken")
	}
	err := r.Status().Err
	if err == nil || !strings.Contains(err.Error(), "a.yaml:2:") || !strings.Contains(err.Error(), "\noffer:2:") {
		t.Errorf("got %v", err)
	}
	if r.Status().Rules != nil || r.Status().Failed.IsZero() {
		t.Errorf("got %+v", r.Status())
	}
}

// Without files there is nothing to load: all comes from offers, and none at
// all is what a control plane may say.
func TestOffersAlone(t *testing.T) {
	var got []*descriptors.Rules
	loader, err := New(Options{
		Apply: func(rules *descriptors.Rules) { got = append(got, rules) }, Registerer: prometheus.NewRegistry(),
		Log: slog.New(slog.NewTextHandler(&bytes.Buffer{}, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	loader.Load()
	if s := loader.Status(); s.Rules != nil || s.Err != nil {
		t.Errorf("before any offer: %+v", s)
	}
	for _, texts := range [][]string{{}, {policy("a", 1)}, {}, {}} {
		if err := loader.Offer(offers(texts...)); err != nil {
			t.Error(err)
		}
	}
	if len(got) != 3 || len(got[0].Domains()) != 0 || len(got[1].Domains()) != 1 || len(got[2].Domains()) != 0 {
		t.Errorf("handed on %d sets of rules", len(got))
	}
}
