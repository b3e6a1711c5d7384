package descriptors

import (
	"strings"
	"testing"
)

// compile makes rules of policy files, which must have no faults.
func compile(t testing.TB, texts ...string) *Rules {
	t.Helper()
	var files []File
	for i, text := range texts {
		files = append(files, File{Name: string(rune('a'+i)) + ".yaml", Text: []byte(text)})
	}
	rules, err := Compile(files, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

// entries reads a=b,c=d.
func entries(text string) []Entry {
	var list []Entry
	for part := range strings.SplitSeq(text, ",") {
		if part == "" {
			continue
		}
		key, value, _ := strings.Cut(part, "=")
		list = append(list, Entry{[]byte(key), []byte(value)})
	}
	return list
}

// matched returns the names of the limits that the entries meet; "-" for no
// rule and "" for a rule without limits.
func matched(d *Domain, text string) string {
	r := d.Match(entries(text))
	if r == nil {
		return "-"
	}
	var names []string
	for _, l := range r.Limits {
		names = append(names, l.Name)
	}
	return strings.Join(names, " ")
}

type want struct{ entries, limit string }

func checkMatches(t *testing.T, policy string, rows []want) {
	t.Helper()
	domain := compile(t, policy).Domains()[0]
	for _, row := range rows {
		if got := matched(domain, row.entries); got != row.limit {
			t.Errorf("(%s): got limit %q, want %q", row.entries, got, row.limit)
		}
	}
}

func TestKeyIsComparedWithKeyAndValueWithValue(t *testing.T) {
	checkMatches(t, `
domain: t
descriptors:
  - {key: tier_gold, rate_limit: {name: key, unit: hour, requests_per_unit: 1}}
  - {key: tier, value: gold, rate_limit: {name: pair, unit: hour, requests_per_unit: 2}}
  - {key: pre*, rate_limit: {name: star, unit: hour, requests_per_unit: 1}}
`, []want{
		{"tier=gold", "pair"},
		{"tier=silver", "-"},
		{"tier_gold=", "key"},
		{"tier_gold=x", "key"},
		{"tier_=gold", "-"},
		{"=tier_gold", "-"},
		{"prefix=x", "-"},
		{"pre*=x", "star"},
	})
}

func TestPrecedence(t *testing.T) {
	checkMatches(t, `
domain: t
descriptors:
  - {key: p, rate_limit: {name: any, unit: hour, requests_per_unit: 1}}
  - {key: p, value: /a*, rate_limit: {name: a, unit: hour, requests_per_unit: 1}}
  - {key: p, value: /api/*, rate_limit: {name: api, unit: hour, requests_per_unit: 1}}
  - {key: p, value: "*/x", rate_limit: {name: x, unit: hour, requests_per_unit: 1}}
  - {key: p, value: /api/v1, rate_limit: {name: exact, unit: hour, requests_per_unit: 1}}
  - {key: p, value: "/a*z*", rate_limit: {name: az, unit: hour, requests_per_unit: 1}}
`, []want{
		{"p=/api/v1", "exact"},
		{"p=/api/v2", "api"},
		{"p=/about", "a"},
		{"p=/b/x", "x"},
		{"p=/b/x/", "any"},
		{"p=/ax", "a"},
		{"p=/a/x", "a"}, // as many literals as */x, but they come first
		{"p=/az", "az"},
		{"p=/api/z", "api"},
		{"p=", "any"},
		{"p=*/x", "x"},
	})
}

func TestReferenceCountingTakesTheFirstPattern(t *testing.T) {
	checkMatches(t, `
domain: t
counting: reference
descriptors:
  - {key: p, value: "*z", rate_limit: {name: z, unit: hour, requests_per_unit: 1}}
  - {key: p, value: /api/*, rate_limit: {name: api, unit: hour, requests_per_unit: 1}}
  - {key: p, value: /a*, rate_limit: {name: a, unit: hour, requests_per_unit: 1}}
`, []want{
		{"p=/api/z", "z"},
		{"p=/api/y", "api"},
		{"p=/az", "z"},
		{"p=/ay", "a"},
	})
}

func TestTheLastEntryChoosesTheRule(t *testing.T) {
	checkMatches(t, `
domain: t
descriptors:
  - key: a
    value: x
    rate_limit: {name: ax, unit: hour, requests_per_unit: 9}
    descriptors:
      - key: b
        descriptors:
          - {key: c, rate_limit: {name: abc, unit: day, requests_per_unit: 2}}
  - {key: leaf, rate_limit: {name: leaf, unit: hour, requests_per_unit: 7}}
`, []want{
		{"a=x", "ax"},
		{"a=x,b=1", ""},
		{"a=x,b=1,c=2", "abc"},
		{"a=x,b=1,c=2,d=3", "-"},
		{"a=x,n=1", "-"},
		{"b=1,a=x", "-"},
		{"leaf=x,more=y", "-"},
		{"", "-"},
	})
}

// A choice is final (X4): api* has no child for POST, and the descriptor
// without a value is not tried instead.
func TestNoWayBack(t *testing.T) {
	for _, counting := range []string{"precise", "reference"} {
		checkMatches(t, `
domain: t
counting: `+counting+`
descriptors:
  - key: route
    value: api*
    descriptors:
      - {key: method, value: GET, rate_limit: {name: get, unit: hour, requests_per_unit: 5}}
  - key: route
    descriptors:
      - {key: method, rate_limit: {name: any, unit: hour, requests_per_unit: 1}}
`, []want{
			{"route=apiX,method=GET", "get"},
			{"route=web,method=POST", "any"},
			{"route=apiX,method=POST", "-"},
		})
	}
}

func TestMatchingAndKeysDoNotAllocate(t *testing.T) {
	rules := compile(t, `
domain: t
descriptors:
  - key: path
    value: /api/*
    descriptors:
      - {key: user, rate_limit: {unit: hour, requests_per_unit: 1}}
`)
	request, name := entries("path=/api/v1/things,user=u1"), []byte("t")
	key := make([]byte, 0, 300)
	allocs := testing.AllocsPerRun(100, func() {
		rule := rules.Domain(name).Match(request)
		key = rule.Limits[0].AppendKey(key[:0], request)
		Replaced([]*Rule{rule})
	})
	if allocs != 0 {
		t.Errorf("%v allocations, want none", allocs)
	}
}
