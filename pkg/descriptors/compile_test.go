package descriptors

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

func TestNoFilesNoRules(t *testing.T) {
	rules, err := Compile(nil, Options{})
	if err != nil || len(rules.Domains()) != 0 || len(rules.Limits()) != 0 || rules.Domain([]byte("t")) != nil {
		t.Errorf("got %v, %v", rules, err)
	}
}

func TestCountingOfADomain(t *testing.T) {
	for _, row := range []struct {
		text    string
		options Options
		want    algorithm.Counting
	}{
		{"domain: t", Options{}, algorithm.Precise},
		{"domain: t", Options{Counting: algorithm.Reference}, algorithm.Reference},
		{"domain: t\ncounting: precise", Options{Counting: algorithm.Reference}, algorithm.Precise},
		{"domain: t\ncounting: reference", Options{}, algorithm.Reference},
		{"domain: t\n---\ndomain: t\ncounting: reference\n---\ndomain: t", Options{}, algorithm.Reference},
	} {
		rules, err := Compile([]File{{Name: "a.yaml", Text: []byte(row.text)}}, row.options)
		if err != nil {
			t.Error(err)
		} else if got := rules.Domains()[0].Counting; got != row.want {
			t.Errorf("%q with %v: got %d, want %d", row.text, row.options, got, row.want)
		}
	}
}

func TestOneDomainInSeveralFiles(t *testing.T) {
	rules := compile(t,
		"domain: t\ndescriptors: [{key: a, rate_limit: {unit: hour, requests_per_unit: 4, name: one}}]",
		"domain: u",
		"domain: t\ndescriptors: [{key: b, rate_limit: {unit: hour, requests_per_unit: 2, name: two, replaces: [{name: one}]}}]")
	domain := rules.Domain([]byte("t"))
	if a, b := matched(domain, "a=x"), matched(domain, "b=x"); a != "one" || b != "two" {
		t.Errorf("got %s and %s", a, b)
	}
	if n := len(rules.Domains()); n != 2 {
		t.Errorf("%d domains", n)
	}
	if r := domain.Match(entries("b=x")); r.File != "c.yaml" || r.Line != 2 {
		t.Errorf("b stands at %s:%d", r.File, r.Line)
	}
}

func TestLimitsAreNumbered(t *testing.T) {
	rules := compile(t,
		"domain: z\ndescriptors: [{key: a, rate_limit: {unit: hour, requests_per_unit: 4}}]",
		"domain: a\ndescriptors: [{key: a, rate_limits: [{unit: hour, requests_per_unit: 4}, {unit: day, requests_per_unit: 4}]}]")
	ids := make(map[string]bool)
	for i, l := range rules.Limits() {
		if l.Index != i {
			t.Errorf("limit %d has the index %d", i, l.Index)
		}
		ids[l.ID] = true
	}
	if len(ids) != 3 {
		t.Errorf("the limits have the labels %v", ids)
	}
}

func TestRevision(t *testing.T) {
	revision := func(name, text string) string {
		rules, err := Compile([]File{{Name: name, Text: []byte(text)}}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		return rules.Revision()
	}
	first := revision("a.yaml", "domain: t")
	if len(first) != 12 || first != revision("a.yaml", "domain: t") {
		t.Errorf("revision %q", first)
	}
	for _, other := range []string{revision("a.yaml", "domain: u"), revision("b.yaml", "domain: t"), revision("a.yaml", "domain: t\n")} {
		if other == first {
			t.Error("different files have one revision")
		}
	}
}

func TestFilesAreBounded(t *testing.T) {
	for _, row := range []struct{ what, text, want string }{
		{"size", "domain: t\n" + strings.Repeat("#", MaxFileSize), "the file has 16777226 bytes; at most 16777216 are allowed"},
		{"flow depth", "domain: " + strings.Repeat("[", 100_000), "the file is not YAML"},
		{"block depth", "domain: t\ndescriptors:\n" + strings.Repeat("- ", 100_000), "the file is not YAML"},
		{"merges", "domain: t\ndescriptors:\n  - {key: a, metadata: &big {" + manyFields(5000) + "}}\n  - {key: b, metadata: {<<: [" + strings.Repeat("*big, ", 5000) + "]}}", "the file's aliases expand to more than 100000 values"},
		{"errors", "domain: t\ndescriptors:\n" + strings.Repeat("  - {kee: a}\n", 5000), "and 4000 more errors"},
	} {
		start := time.Now()
		_, err := Compile([]File{{Name: "a.yaml", Text: []byte(row.text)}}, Options{})
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: got %.200v, want %q", row.what, err, row.want)
		}
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("%s: took %v", row.what, took)
		}
	}
}

func manyFields(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "k%d: v, ", i)
	}
	return b.String()
}

func TestErrorListUnwraps(t *testing.T) {
	_, err := Compile([]File{{Name: "a.yaml", Text: []byte("domain: t\nx: 1\n")}}, Options{})
	var one *Error
	if !errors.As(err, &one) || one.File != "a.yaml" || one.Line != 2 || one.Column != 1 || one.Path != "x" {
		t.Errorf("got %+v", one)
	}
}

// T11: the seconds until a calendar window ends, and until one ends that is a
// multiple of its length since 1970.
func TestWindowsEndWhenTheyShould(t *testing.T) {
	const policy = `
domain: t
descriptors:
  - {key: w, rate_limit: {unit: week,  requests_per_unit: 9, calendar: true}}
  - {key: m, rate_limit: {unit: month, requests_per_unit: 9, calendar: true}}
  - {key: y, rate_limit: {unit: year,  requests_per_unit: 9, calendar: true}}
  - {key: d, rate_limit: {unit: day,   requests_per_unit: 9, calendar: true, time_zone: America/New_York}}
  - {key: h, rate_limit: {unit: hour,  requests_per_unit: 9, calendar: true, time_zone: Asia/Kolkata}}
  - {key: sao, rate_limit: {unit: day, requests_per_unit: 9, calendar: true, time_zone: America/Sao_Paulo}}
  - {key: W, rate_limit: {unit: week,  requests_per_unit: 9}}
  - {key: M, rate_limit: {unit: month, requests_per_unit: 9}}
  - {key: Y, rate_limit: {unit: year,  requests_per_unit: 9}}
`
	domain := compile(t, policy).Domains()[0]
	for _, row := range []struct {
		now, key string
		seconds  int
	}{
		{"2027-02-17T12:00:00Z", "w", 388_800},
		{"2027-02-17T12:00:00Z", "m", 993_600},
		{"2027-02-17T12:00:00Z", "y", 27_432_000},
		{"2027-02-17T12:00:00Z", "W", 43_200},
		{"2027-02-17T12:00:00Z", "M", 1_166_400},
		{"2027-02-17T12:00:00Z", "Y", 26_222_400},
		{"2027-03-14T06:00:00Z", "d", 79_200}, // a day of 23 hours
		{"2027-11-07T05:00:00Z", "d", 86_400}, // an hour into a day of 25
		{"2027-11-07T04:00:00Z", "d", 90_000},
		{"2027-02-28T23:59:59Z", "m", 1},
		{"2027-03-01T00:00:00Z", "m", 31 * 86_400},
		{"2027-02-17T12:00:00Z", "h", 1_800},
		{"2018-11-04T02:59:00Z", "sao", 60},     // midnight is skipped
		{"2018-11-04T03:00:00Z", "sao", 82_800}, // and the day has 23 hours
	} {
		now, err := time.Parse(time.RFC3339, row.now)
		if err != nil {
			t.Fatal(err)
		}
		limit := domain.Match(entries(row.key + "=")).Limits[0].Limit
		var state algorithm.State
		decision := decide(now, limit, &state)
		if want := time.Duration(row.seconds) * time.Second; decision.Reset != want {
			t.Errorf("%s at %s: reset after %v, want %v", row.key, row.now, decision.Reset, want)
		}
		if later := decide(now.Add(decision.Reset-1000), limit, &state); later.Before != 1 {
			t.Errorf("%s at %s: the hit is gone before the reset", row.key, row.now)
		}
		if later := decide(now.Add(decision.Reset), limit, &state); later.Before != 0 {
			t.Errorf("%s at %s: the hit is still there after the reset", row.key, row.now)
		}
	}
}

func decide(now time.Time, limit *algorithm.Limit, state *algorithm.State) algorithm.Decision {
	out := make([]algorithm.Decision, 1)
	asks := []algorithm.Ask{{Key: []byte("k"), Limit: limit, Hits: 1}}
	algorithm.Decide(now.UnixMicro(), asks, []*algorithm.State{state}, out)
	return out[0]
}

func TestIDsAreShortAndPrintable(t *testing.T) {
	var b strings.Builder
	b.WriteString("domain: t\ndescriptors:\n")
	for i := range 200 {
		fmt.Fprintf(&b, "  - {key: %q, rate_limit: {unit: hour, requests_per_unit: 1}}\n", strings.Repeat("é", 98)+strings.Repeat("x", 10)+fmt.Sprint(i))
	}
	seen := make(map[string]bool)
	for _, l := range compile(t, b.String()).Limits() {
		if len(l.ID) > longestID || seen[l.ID] || strings.ToValidUTF8(l.ID, "") != l.ID {
			t.Fatalf("%d bytes: %q", len(l.ID), l.ID)
		}
		seen[l.ID] = true
	}
}

// TestManyLikeLabels loads limits whose labels differ only behind the place
// where labels are cut, as those of long names that a program generates.
func TestManyLikeLabels(t *testing.T) {
	var text strings.Builder
	text.WriteString("domain: t\ndescriptors:\n")
	for i := range 20_000 {
		fmt.Fprintf(&text, "  - {key: k, value: %s%d, rate_limit: {unit: hour, requests_per_unit: 1}}\n", strings.Repeat("x", longestID), i)
	}
	begin := time.Now()
	rules := compile(t, text.String())
	if took := time.Since(begin); took > 30*time.Second { // it takes half a second
		t.Errorf("took %v", took)
	}
	ids := make(map[string]bool)
	for _, l := range rules.Limits() {
		ids[l.ID] = true
	}
	if len(ids) != 20_000 {
		t.Errorf("%d labels", len(ids))
	}
}
