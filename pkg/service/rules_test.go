package service

import (
	"testing"
	"time"
)

func TestLargeNumbersPoisonNothing(t *testing.T) {
	s := start(t, DefaultOptions(), `
domain: t
descriptors:
  - {key: usd,  rate_limit: {unit: month, requests_per_unit: 4294967295}}
  - {key: none, rate_limit: {unit: hour, requests_per_unit: 0}}
  - {key: fast, rate_limit: {unit: second, requests_per_unit: 6000, burst: 6000, algorithm: token_bucket}}
`)
	for i, step := range []step{
		{0, "(usd=v) hits=4294967295", "OK OK:0/4294967295"},
		{0, "(usd=v)", "OVER OVER:0/4294967295"},
		{0, "(none=v)", "OVER OVER:0/0"},
		{0, "(none=v)", "OVER OVER:0/0"},
		{0, "(usd=p hits=9223372036854775808)", "OVER OVER:0/4294967295"},
		{0, "(usd=p hits=18446744073709551615)", "OVER OVER:0/4294967295"},
		{0, "(usd=p)", "OK OK:4294967294/4294967295"},
		{0, "(usd=p hits=18446744073709551615 back)", "OK OK:4294967295/4294967295"},
		{0, "(usd=p)", "OK OK:4294967294/4294967295"},
		{0, "(fast=v) hits=6000", "OK OK:0/6000"},
		{0, "(fast=v)", "OVER OVER:0/6000"},
		{500 * time.Millisecond, "(fast=v) hits=3000", "OK OK:0/6000"},
		{200 * time.Microsecond, "(fast=v)", "OK OK:0/6000"},
		{0, "(fast=v)", "OVER OVER:0/6000"},
	} {
		s.store.sleep(step.sleep)
		response, err := s.ask(t, step.ask)
		if got := withoutResets(show(response, err)); got != step.want {
			t.Errorf("step %d, %s: got %s, want %s", i, step.ask, got, step.want)
		}
	}
}

const overridePolicy = "domain: t\ndescriptors:\n  - {key: ovr, rate_limit: {unit: hour, requests_per_unit: 1}}\n"

func TestOverrides(t *testing.T) {
	s := start(t, DefaultOptions(), overridePolicy)
	s.play(t, []step{
		{0, "(ovr=a limit=2/UNKNOWN)", "OK OK:0/1@1849"}, // ignored: the rule holds
		{0, "(ovr=a limit=2/99)", "OVER OVER:0/1@1849"},
		{0, "(ovr=b limit=2/HOUR)", "OK OK:1/2@1849"},
		{0, "(ovr=b limit=2/HOUR)", "OK OK:0/2@1849"},
		{0, "(ovr=b limit=2/HOUR)", "OVER OVER:0/2@1849"},
		{0, "(ovr=b limit=5/DAY)", "OK OK:4/5@73849"}, // a counter of its own
		{0, "(ovr=b limit=3/HOUR)", "OK OK:0/3@1849"}, // the same window, so the same counter
		{0, "(ovr=b)", "OK OK:0/1@1849"},
		{0, "(any=thing limit=1/MINUTE)", "OK OK:0/1@49"}, // no rule is needed
		{0, "(any=thing limit=1/MINUTE*10)", "OK OK:0/1@49"},
		{0, "(any=thing limit=0/DAY)", "OVER OVER:0/0@86400"}, // never: one window,
		{0, "(any=thing limit=9/YEAR*4294967295)", "OK OK:8/9@1357504249"},
	})
	response, err := s.ask(t, "(any=other limit=7/MINUTE*10)")
	if err != nil {
		t.Fatal(err)
	}
	limit := response.Statuses[0].CurrentLimit
	if limit.Unit.String() != "MINUTE" || limit.UnitMultiplier.GetValue() != 10 || limit.Name != "" {
		t.Errorf("current_limit %v", limit)
	}
	if got := s.decisions(t); got["t/(override) over_limit"] != 1 || got["t/(override) never_fits"] != 1 {
		t.Errorf("counted %v", got)
	}
}

func TestQuotaLimitsDenyTogether(t *testing.T) {
	s := start(t, DefaultOptions(), `
domain: t
descriptors:
  - key: q1
    quota_mode: true
    rate_limit: {unit: hour, requests_per_unit: 1}
  - key: q2
    quota_mode: true
    rate_limit: {unit: minute, requests_per_unit: 2}
  - key: hard
    rate_limit: {unit: hour, requests_per_unit: 3}
`)
	headers := []string{
		"RateLimit-Policy: \"q2\";q=2;w=60\nRateLimit: \"q2\";r=1;t=49", // the loosest of the two speaks
		"RateLimit-Policy: \"q2\";q=2;w=60\nRateLimit: \"q2\";r=0;t=49",
		"RateLimit-Policy: \"q2\";q=2;w=60\nRateLimit: \"q2\";r=0;t=49\nRetry-After: 49", // and the first that is free again
	}
	for i, want := range []string{"OK OK:0/1@1849 OK:1/2@49", "OK OVER:0/1@1849 OK:0/2@49", "OVER OVER:0/1@1849 OVER:0/2@49"} {
		response, err := s.ask(t, "(q1=v)+(q2=v)")
		if got := show(response, err); got != want {
			t.Errorf("call %d: got %s, want %s", i, got, want)
		}
		if got := headersOf(response); got != headers[i] {
			t.Errorf("call %d: got headers\n%s\nwant\n%s", i, got, headers[i])
		}
	}
	s.play(t, []step{
		{0, "(hard=v)+(q1=v)", "OVER OK:3/3@0 OVER:0/1@1849"},
		{0, "(hard=v)+(q1=w)", "OK OK:2/3@1849 OK:0/1@1849"},
	})
}

func TestRulesWithoutALimit(t *testing.T) {
	s := start(t, DefaultOptions(), `
domain: t
descriptors:
  - {key: free, rate_limit: {unlimited: true}}
  - {key: listed}
  - {key: base, rate_limit: {unit: hour, requests_per_unit: 1, name: base}}
  - {key: vip, rate_limit: {unit: hour, requests_per_unit: 9, replaces: [{name: base}]}}
`)
	s.play(t, []step{
		{0, "(free=x)", "OK OK:4294967295"},
		{0, "(listed=x)", "OK OK"},
		{0, "(unknown=x)", "OK OK"},
		{0, "(free=x)+(base=x)+(unknown=x)+(listed=x)", "OK OK:4294967295 OK:0/1@1849 OK OK"},
		{0, "(base=x)", "OVER OVER:0/1@1849"},
		{0, "(base=x)+(vip=x)", "OK OK OK:8/9@1849"},
		{0, "(free=x)+(base=x) domain=elsewhere", "OK OK OK"},
	})
	if got := s.counter(t, "ratelimitd_unknown_domain_requests_total"); got != 1 {
		t.Errorf("%v requests of unknown domains, want 1", got)
	}
	if got := s.counter(t, "ratelimitd_unmatched_descriptors_total"); got != 2 {
		t.Errorf("%v unmatched descriptors, want 2", got)
	}
}

func TestSeveralLimitsOnOneKey(t *testing.T) {
	s := start(t, DefaultOptions(), `
domain: t
descriptors:
  - key: account
    rate_limits:
      - {requests_per_unit: 2, unit: minute}
      - {requests_per_unit: 3, unit: day}
`)
	s.play(t, []step{
		{0, "(account=a)", "OK OK:1/2@49"},
		{0, "(account=a)", "OK OK:0/2@49"},
		{0, "(account=a)", "OVER OVER:0/2@49"},
		{49 * time.Second, "(account=a)", "OK OK:0/3@73800"},
		{0, "(account=a)", "OVER OVER:0/3@73800"},
		{0, "(account=a) hits=2", "OVER OVER:0/3@73800"},
	})
	response, _ := s.ask(t, "(account=a)")
	if got, want := headersOf(response), "RateLimit-Policy: \"account/24h\";q=3;w=86400\nRateLimit: \"account/24h\";r=0;t=73800\nRetry-After: 73800"; got != want {
		t.Errorf("got headers\n%s\nwant\n%s", got, want)
	}
}

func TestTheSameDescriptorTwiceCountsTwice(t *testing.T) {
	s := start(t, DefaultOptions(), sitePolicy)
	s.play(t, []step{
		{0, "(acct=u)+(acct=u)", "OK OK:2/3@1849 OK:1/3@1849"},
		{0, "(acct=u)+(acct=u)", "OVER OK:1/3@1849 OVER:0/3@1849"},
		{0, "(acct=u)", "OK OK:0/3@1849"},
	})
}
