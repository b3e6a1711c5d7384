package descriptors

import (
	"fmt"
	"strings"
	"testing"
)

const replacePolicy = `
domain: t
descriptors:
  - {key: base, rate_limit: {name: base, unit: hour, requests_per_unit: 1}}
  - {key: other, rate_limit: {name: other, unit: hour, requests_per_unit: 1}}
  - {key: boost, rate_limit: {name: boost, unit: hour, requests_per_unit: 3, replaces: [{name: base}, {name: other}]}}
  - {key: superboost, rate_limit: {unit: hour, requests_per_unit: 3, replaces: [{name: boost}]}}
  - {key: left, rate_limit: {name: left, unit: hour, requests_per_unit: 3, replaces: [{name: right}]}}
  - {key: right, rate_limit: {name: right, unit: hour, requests_per_unit: 3, replaces: [{name: left}]}}
  - {key: free, rate_limit: {name: free, unlimited: true, replaces: [{name: base}]}}
  - {key: nofree, rate_limit: {name: nofree, unit: hour, requests_per_unit: 3, replaces: [{name: free}]}}
  - key: two
    rate_limits:
      - {name: minute, unit: minute, requests_per_unit: 1}
      - {name: hour, unit: hour, requests_per_unit: 1}
  - {key: noMinute, rate_limit: {unit: hour, requests_per_unit: 3, replaces: [{name: minute}]}}
  - {key: noHour, rate_limit: {unit: hour, requests_per_unit: 3, replaces: [{name: hour}]}}
  - {key: nameless, rate_limit: {unit: hour, requests_per_unit: 3}}
  - {key: known}
`

func TestReplaced(t *testing.T) {
	domain := compile(t, replacePolicy).Domains()[0]
	for _, row := range []struct{ request, want string }{
		{"base", "base"},
		{"base other", "base other"},
		{"base boost other", "- boost -"},
		{"boost base", "boost -"},
		{"superboost boost base", "superboost - -"}, // what is replaced replaces
		{"left right", "- -"},
		{"left", "left"},
		{"base free", "- free"},
		{"free nofree", "free nofree"}, // unlimited rules stay
		{"two", "two(minute hour)"},
		{"two noMinute", "two(hour) noMinute"},
		{"two noHour noMinute", "- noHour noMinute"},
		{"nowhere boost nameless known", "- boost nameless known"},
		{"", ""},
	} {
		var rules []*Rule
		for name := range strings.FieldsSeq(row.request) {
			rules = append(rules, domain.Match(entries(name)))
		}
		Replaced(rules)
		if got := describeMatched(rules); got != row.want {
			t.Errorf("%s: got %s, want %s", row.request, got, row.want)
		}
	}
	// Nothing of this has changed the rules.
	if got := matched(domain, "two"); got != "minute hour" {
		t.Errorf("the rule has now the limits %s", got)
	}
}

func describeMatched(rules []*Rule) string {
	var words []string
	for _, r := range rules {
		if r == nil {
			words = append(words, "-")
			continue
		}
		word := r.Path[0].Key
		if word == "two" {
			word += "("
			for i, l := range r.Limits {
				word += strings.Repeat(" ", min(i, 1)) + l.Name
			}
			word += ")"
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

// Names are known by their domain; the same name in another is not replaced.
func TestReplacedStaysInItsDomain(t *testing.T) {
	rules := compile(t, `
domain: a
descriptors:
  - {key: x, rate_limit: {name: n, unit: hour, requests_per_unit: 1}}
  - {key: y, rate_limit: {unit: hour, requests_per_unit: 1, replaces: [{name: n}]}}
---
domain: b
descriptors:
  - {key: x, rate_limit: {name: n, unit: hour, requests_per_unit: 1}}
`)
	if l := rules.Domain([]byte("b")).Match(entries("x=")).Limits[0]; l.replaced != -1 {
		t.Errorf("the limit of b is replaced as %d", l.replaced)
	}
}

func TestManyNamesAreReplaced(t *testing.T) {
	var b strings.Builder
	b.WriteString("domain: t\ndescriptors:\n  - key: all\n    rate_limit:\n      unit: hour\n      requests_per_unit: 1\n      replaces:\n")
	for i := range 1000 {
		fmt.Fprintf(&b, "        - name: n%d\n", i)
	}
	for i := range 1000 {
		fmt.Fprintf(&b, "  - {key: k%d, rate_limit: {unit: hour, requests_per_unit: 1, name: n%d}}\n", i, i)
	}
	domain := compile(t, b.String()).Domains()[0]
	rules := []*Rule{domain.Match(entries("all=")), domain.Match(entries("k0=")), domain.Match(entries("k999="))}
	Replaced(rules)
	if rules[0] == nil || rules[1] != nil || rules[2] != nil {
		t.Error(rules)
	}
}

// TestManyMissingNames compares few of them with the names there are, since each
// comparison is with all.
func TestManyMissingNames(t *testing.T) {
	var text strings.Builder
	text.WriteString("domain: t\ndescriptors:\n")
	for i := range 900 {
		fmt.Fprintf(&text, "  - {key: k%d, rate_limit: {unit: hour, requests_per_unit: 1, name: name%d, replaces: [{name: nome%d}]}}\n", i, i, i)
	}
	_, err := Compile([]File{{Name: "a.yaml", Text: []byte(text.String())}}, Options{})
	if err == nil {
		t.Fatal("no error")
	}
	if missing, hints := strings.Count(err.Error(), "has the name"), strings.Count(err.Error(), "did you mean"); missing != 900 || hints != 20 {
		t.Errorf("%d names are missing, with %d hints", missing, hints)
	}
}
