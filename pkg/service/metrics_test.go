package service

import (
	"testing"

	dto "github.com/prometheus/client_model/go"
)

// families returns the metrics that a scrape would show, by name.
func (s *server) families(t testing.TB) map[string]*dto.MetricFamily {
	t.Helper()
	gathered, err := s.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	byName := make(map[string]*dto.MetricFamily)
	for _, family := range gathered {
		byName[family.GetName()] = family
	}
	return byName
}

// decisions returns the counters of decisions as "domain/rule outcome". The
// rule's label begins with the domain.
func (s *server) decisions(t testing.TB) map[string]float64 {
	t.Helper()
	counts := make(map[string]float64)
	for _, m := range s.families(t)["ratelimitd_decisions_total"].GetMetric() {
		labels := map[string]string{}
		for _, l := range m.Label {
			labels[l.GetName()] = l.GetValue()
		}
		rule := labels["rule"]
		if rule == overrideRule {
			rule = labels["domain"] + "/" + rule
		}
		counts[rule+" "+labels["outcome"]] = m.Counter.GetValue()
	}
	return counts
}

// counter returns the sum of a counter over its labels.
func (s *server) counter(t testing.TB, name string) float64 {
	t.Helper()
	sum := 0.0
	for _, m := range s.families(t)[name].GetMetric() {
		sum += m.Counter.GetValue()
	}
	return sum
}

func TestCountersOfARule(t *testing.T) {
	s := start(t, DefaultOptions(), sitePolicy)
	s.play(t, []step{
		{0, "(site=s) hits=7", "OK OK:3/10@1849"},
		{0, "(site=s)", "OK OK:2/10@1849"},
		{0, "(site=s)", "OK OK:1/10@1849"},
		{0, "(site=s) hits=2", "OVER OVER:0/10@1849"},
		{0, "(site=s) hits=11", "OVER OVER:0/10@3600"},
		{0, "(site=s hits=1 back)", "OK OK:2/10@1849"},
	})
	got := s.decisions(t)
	for name, want := range map[string]float64{
		"within_limit": 1, "near_limit": 2, "over_limit": 1, "never_fits": 1, "given_back": 1, "undecided": 0,
	} {
		if got["t/site "+name] != want {
			t.Errorf("%s: got %v, want %v", name, got["t/site "+name], want)
		}
	}
	if hits := s.counter(t, "ratelimitd_hits_total"); hits != 9 {
		t.Errorf("%v hits charged, want 9", hits)
	}
}

func TestCountersAcrossAReload(t *testing.T) {
	s := start(t, DefaultOptions(), sitePolicy)
	s.play(t, []step{
		{0, "(site=s)", "OK OK:9/10@1849"},
		{0, "(acct=u)", "OK OK:2/3@1849"},
	})
	s.SetRules(compile(t, "domain: t\ndescriptors:\n  - {key: site, rate_limit: {unit: hour, requests_per_unit: 12}}\n  - {key: new, rate_limit: {unit: hour, requests_per_unit: 12}}\n"))
	s.play(t, []step{{0, "(site=s)", "OK OK:10/12@1849"}})
	got := s.decisions(t)
	if got["t/site within_limit"] != 2 {
		t.Errorf("the rule that stayed lost its count: %v", got)
	}
	if _, found := got["t/acct within_limit"]; found {
		t.Errorf("the rule that went kept its series: %v", got)
	}
	if _, found := got["t/new over_limit"]; !found {
		t.Errorf("the new rule has no series: %v", got)
	}
}

// What clients choose adds no series, however many they send.
func TestSeriesAreBounded(t *testing.T) {
	s := start(t, DefaultOptions(), overridePolicy)
	count := func() int {
		n := 0
		for _, family := range s.families(t) {
			n += len(family.Metric)
		}
		return n
	}
	send := func(i uint32) {
		d := anyDescriptor{Entries: entries("ovr", string(rune('a'+i%26))), HasOverride: i%3 > 0}
		d.Override.Requests, d.Override.Unit = i, int32(i%9)
		for _, domain := range []string{"t", "t" + string(rune('a'+i%26))} {
			if _, err := s.answer(t, encode(&anyRequest{Domain: []byte(domain), Descriptors: []anyDescriptor{d}})); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range uint32(1000) {
		send(i)
	}
	before := count()
	for i := range uint32(2000) {
		send(i)
	}
	if after := count(); after > before+int(outcomeCount) {
		t.Errorf("%d series became %d", before, after)
	}
}
