package statsd

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
	"github.com/ratelimitd/ratelimitd/pkg/descriptors"
)

const namesPolicy = `domain: sn
descriptors:
  - {key: det, detailed_metric: true, rate_limit: &l {unit: day, requests_per_unit: 99}}
  - {key: plain, value: v, rate_limit: *l}
  - {key: route, value_to_metric: true, descriptors: [{key: method, rate_limit: *l}]}
  - {key: wild, value: pre*, rate_limit: *l}
  - {key: wvm, value: pre*, value_to_metric: true, rate_limit: *l}
  - {key: exact, value: one, value_to_metric: true, rate_limit: *l}
  - {key: wsh, value: pre*, share_threshold: true, value_to_metric: true, rate_limit: *l}
  - {key: addr, value: "10.1.2.3:80|x", rate_limit: *l}
  - {key: top, value: t*, share_threshold: true, descriptors: [{key: leaf, detailed_metric: true, rate_limit: *l}]}
  - {key: two, rate_limits: [{unit: day, requests_per_unit: 9, name: daily}, {unit: minute, requests_per_unit: 9}]}
`

func compile(t testing.TB, policy string) *descriptors.Rules {
	t.Helper()
	rules, err := descriptors.Compile([]descriptors.File{{Name: "policy.yaml", Text: []byte(policy)}}, descriptors.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

// entriesOf reads key=value words.
func entriesOf(text string) []descriptors.Entry {
	var all []descriptors.Entry
	for word := range strings.FieldsSeq(text) {
		key, value, _ := bytes.Cut([]byte(word), []byte("="))
		all = append(all, descriptors.Entry{Key: key, Value: value})
	}
	return all
}

// ask counts one granted hit of a descriptor.
func ask(t testing.TB, s *Sheet, rules *descriptors.Rules, domain string, entries []descriptors.Entry) {
	t.Helper()
	rule := rules.Domain([]byte(domain)).Match(entries)
	if rule == nil {
		t.Fatalf("no rule for %s", entries)
	}
	for _, l := range rule.Limits {
		s.Count(l, entries, &algorithm.Ask{Limit: l.Limit, Hits: 1}, &algorithm.Decision{Outcome: algorithm.Allowed, After: 1})
	}
}

// bring counts one granted hit of a limit that the request brought.
func bring(t testing.TB, s *Sheet, rules *descriptors.Rules, domain string, entries []descriptors.Entry) {
	t.Helper()
	l, ok := rules.Domain([]byte(domain)).Override(descriptors.Override{Requests: 9, Unit: 4})
	if !ok {
		t.Fatal("no override")
	}
	s.Count(l, entries, &algorithm.Ask{Limit: l.Limit, Hits: 1}, &algorithm.Decision{Outcome: algorithm.Allowed, After: 1})
}

// totals returns the hits by name.
func (t *Tally) totals() map[string]uint64 {
	all := make(map[string]uint64)
	t.each(false, func(c counter) {
		if name, ok := strings.CutSuffix(c.name, ".total_hits"); ok {
			all[strings.TrimPrefix(name, rulePrefix)] = c.total
		}
		if name, ok := strings.CutSuffix(c.name, unknownSuffix); ok {
			all[strings.TrimPrefix(name, rulePrefix)] = c.total
		}
	})
	return all
}

// Each descriptor is counted under the name that envoyproxy/ratelimit has for it.
func TestNames(t *testing.T) {
	rules := compile(t, namesPolicy)
	for _, row := range []struct{ entries, want string }{
		{"det=v1", "sn.det_v1"},
		{"det=", "sn.det_"},
		{"plain=v", "sn.plain_v"},
		{"route=api method=GET", "sn.route_api.method"},
		{"route= method=GET", "sn.route.method"},
		{"wild=prefix", "sn.wild_pre*"},
		{"wvm=prefix", "sn.wvm_prefix"},
		{"wvm=pre*", "sn.wvm_pre*"},
		{"exact=one", "sn.exact_one"},
		{"wsh=prefix", "sn.wsh_pre*"},
		{"addr=10.1.2.3:80|x", "sn.addr_10_1_2_3_80_x"},
		{"top=t1 leaf=l1", "sn.top_t*.leaf_l1"},
		{"top=t1 leaf=", "sn.top_t*.leaf"},
		{"two=x", "sn.two.daily sn.two.fixed_window_1m0s"},
		{"det=10.1.2.3", "sn.det_10_1_2_3"},
		{"det=a:1|c\x00\xff", "sn.det_a_1_c__"},
	} {
		tally := NewTally(Options{})
		ask(t, tally.Sheet(rules), rules, "sn", entriesOf(row.entries))
		if got := strings.Join(slices.Sorted(maps.Keys(tally.totals())), " "); got != row.want {
			t.Errorf("%s: %q, want %q", row.entries, got, row.want)
		}
	}
}

// A line is one line, whatever a request holds.
func TestNamesHoldNoLines(t *testing.T) {
	rules := compile(t, namesPolicy)
	tally := NewTally(Options{})
	s := tally.Sheet(rules)
	ask(t, s, rules, "sn", []descriptors.Entry{{Key: []byte("det"), Value: []byte("a\nb:9|c")}})
	bring(t, s, rules, "sn", []descriptors.Entry{{Key: []byte("k\n"), Value: []byte("|@")}, {Key: []byte("e")}})
	tally.UnknownDomain([]byte("x\ny:1|c"), 2)
	want := []string{"sn.det_a_b_9_c", "sn.k___@.e", "x_y_1_c"}
	if got := slices.Sorted(maps.Keys(tally.totals())); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// However many values requests bring, the names are so many, and nothing is lost of the counts.
func TestNamesAreBounded(t *testing.T) {
	const n = 100
	rules := compile(t, namesPolicy)
	tally := NewTally(Options{MaxNames: 10})
	s := tally.Sheet(rules)
	for i := range n {
		ask(t, s, rules, "sn", entriesOf(fmt.Sprintf("det=v%d", i)))
		ask(t, s, rules, "sn", entriesOf(fmt.Sprintf("route=r%d method=GET", i)))
		bring(t, s, rules, "sn", entriesOf(fmt.Sprintf("o=o%d", i)))
	}
	ask(t, s, rules, "sn", entriesOf("det=v3"))
	ask(t, s, rules, "sn", entriesOf("det="+strings.Repeat("x", longestName)))
	got := tally.totals()
	if len(got) != 33 || got["sn.det_v3"] != 2 || got["sn.det_overflow"] != n-10+1 || got["sn.route.method_overflow"] != n-10 || got["sn.overflow"] != n-10 {
		t.Errorf("%d names: %v", len(got), got)
	}

	for i := range 2 * domainsInAll {
		tally.UnknownDomain(fmt.Appendf(nil, "domain%d", i), 1)
	}
	tally.UnknownDomain([]byte("domain5"), 3)
	got = tally.totals()
	if len(got) != 33+domainsInAll+1 || got["domain5"] != 4 || got[overflowDomain] != domainsInAll {
		t.Errorf("%d names, domain5 %d, others %d", len(got), got["domain5"], got[overflowDomain])
	}
}

// All rules together have so many names at most, and rules that go give theirs back.
func TestNamesAreBoundedInAll(t *testing.T) {
	var policy strings.Builder
	policy.WriteString("domain: d\ndescriptors:\n")
	const rulesCount, each = 15, 1000
	for i := range rulesCount {
		fmt.Fprintf(&policy, "  - {key: k%d, detailed_metric: true, rate_limit: {unit: day, requests_per_unit: 9}}\n", i)
	}
	rules := compile(t, policy.String())
	tally := NewTally(Options{})
	for range 2 {
		s := tally.Sheet(rules)
		for i := range rulesCount {
			for j := range each {
				ask(t, s, rules, "d", entriesOf(fmt.Sprintf("k%d=%d", i, j)))
			}
		}
		if got := len(tally.totals()); got <= DefaultMaxNamesInAll || got > DefaultMaxNamesInAll+rulesCount {
			t.Fatalf("%d names", got)
		}
		tally.Sheet(compile(t, "domain: other\n"))
		if n := tally.taken.Load(); n != 0 {
			t.Fatalf("%d names are still taken", n)
		}
	}
}

// Rules that stay keep their counts when others change; what has gone goes once it was told.
func TestReload(t *testing.T) {
	tally := NewTally(Options{})
	before := compile(t, namesPolicy)
	s := tally.Sheet(before)
	ask(t, s, before, "sn", entriesOf("plain=v"))
	ask(t, s, before, "sn", entriesOf("wild=pre"))
	ask(t, s, before, "sn", entriesOf("det=v1"))
	ask(t, s, before, "sn", entriesOf("route=api method=x"))
	after := compile(t, strings.Replace(strings.Replace(namesPolicy, "key: wild", "key: wild2", 1), "key: route,", "key: route, value: a*,", 1))
	s = tally.Sheet(after)
	ask(t, s, after, "sn", entriesOf("plain=v"))
	ask(t, s, after, "sn", entriesOf("det=v1"))
	want := map[string]uint64{"sn.plain_v": 2, "sn.wild_pre*": 1, "sn.det_v1": 2, "sn.route_api.method": 1}
	if got := tally.totals(); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	tally.forget()
	if got := tally.totals(); !maps.Equal(got, want) {
		t.Errorf("before they are told: %v, want %v", got, want)
	}
	tally.each(false, func(c counter) { *c.sent = c.total })
	tally.forget()
	for name := range tally.all {
		if strings.Contains(name, "wild_") || strings.Contains(name, "route_api") {
			t.Errorf("%s is still there", name)
		}
	}
	if tally.all["sn.plain_v"] == nil || tally.all["sn.det_v1"] == nil {
		t.Error("names of rules that stayed are gone")
	}
}

// To count costs no allocation, but for a name that is new.
func TestCountDoesNotAllocate(t *testing.T) {
	rules := compile(t, namesPolicy)
	tally := NewTally(Options{MaxNames: 1})
	s := tally.Sheet(rules)
	l, _ := rules.Domain([]byte("sn")).Override(descriptors.Override{Requests: 9, Unit: 4})
	fixed, detailed, over, brought := entriesOf("plain=v"), entriesOf("det=1"), entriesOf("det=2"), entriesOf("a=b")
	for what, count := range map[string]func(){
		"fixed":    func() { ask(t, s, rules, "sn", fixed) },
		"detailed": func() { ask(t, s, rules, "sn", detailed) },
		"overflow": func() { ask(t, s, rules, "sn", over) },
		"brought": func() {
			s.Count(l, brought, &algorithm.Ask{Limit: l.Limit, Hits: 1}, &algorithm.Decision{Outcome: algorithm.Allowed, After: 1})
		},
		"unknown domain": func() { tally.UnknownDomain(fixed[0].Key, 1) },
		"answered":       func() { tally.Answered(1, 64) },
	} {
		count()
		if n := testing.AllocsPerRun(100, count); n != 0 {
			t.Errorf("%s: %v allocations", what, n)
		}
	}
}
