package service

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

const sitePolicy = `
domain: t
descriptors:
  - key: site
    rate_limit: {unit: hour, requests_per_unit: 10}
  - key: acct
    rate_limit: {unit: hour, requests_per_unit: 3}
`

// The clock of the histories stands at 03:29:11, 1849 s before the full hour.

func TestAllOrNothingOverSeveralLimits(t *testing.T) {
	s := start(t, DefaultOptions(), sitePolicy)
	s.play(t, []step{
		{0, "(site=s)+(acct=u1)", "OK OK:9/10@1849 OK:2/3@1849"},
		{0, "(site=s)+(acct=u1)", "OK OK:8/10@1849 OK:1/3@1849"},
		{0, "(site=s)+(acct=u1)", "OK OK:7/10@1849 OK:0/3@1849"},
		{0, "(site=s)+(acct=u1)", "OVER OK:7/10@1849 OVER:0/3@1849"},
		{0, "(acct=u1)+(site=s)", "OVER OVER:0/3@1849 OK:7/10@1849"},
		{0, "(site=s)+(acct=u2)", "OK OK:6/10@1849 OK:2/3@1849"},
	})
	var mu sync.Mutex
	var group sync.WaitGroup
	counts := map[string]int{}
	for i := range 64 {
		group.Go(func() {
			response, err := s.ask(t, fmt.Sprintf("(site=s)+(acct=p%d)", i))
			mu.Lock()
			defer mu.Unlock()
			counts[strings.Fields(show(response, err))[0]]++
		})
	}
	group.Wait()
	if counts["OK"] != 6 || counts["OVER"] != 58 {
		t.Errorf("64 at once with 6 left: %v", counts)
	}
	s.play(t, []step{{0, "(site=s hits=0)", "OK OK:0/10@1849"}})
}

func TestReferenceCountingChargesEachOnItsOwn(t *testing.T) {
	s := start(t, DefaultOptions(), "counting: reference"+sitePolicy)
	s.play(t, []step{
		{0, "(site=s)+(acct=u1)", "OK OK:9/10@1849 OK:2/3@1849"},
		{0, "(site=s)+(acct=u1)", "OK OK:8/10@1849 OK:1/3@1849"},
		{0, "(site=s)+(acct=u1)", "OK OK:7/10@1849 OK:0/3@1849"},
		{0, "(site=s)+(acct=u1)", "OVER OK:6/10@1849 OVER:0/3@1849"},
		{0, "(site=s)+(acct=u1)", "OVER OK:5/10@1849 OVER:0/3@1849"},
		{0, "(site=s)+(acct=u2)", "OK OK:4/10@1849 OK:2/3@1849"},
	})
}

func TestShadowRuleDeniesNothingAndIsNotShown(t *testing.T) {
	for _, counting := range []string{"precise", "reference"} {
		t.Run(counting, func(t *testing.T) {
			s := start(t, DefaultOptions(), "counting: "+counting+`
domain: t
descriptors:
  - key: trial
    shadow_mode: true
    rate_limit: {unit: hour, requests_per_unit: 1}
  - key: plan
    rate_limit: {unit: hour, requests_per_unit: 5}
`)
			for call := 1; call <= 9; call++ {
				response, err := s.ask(t, "(trial=x)+(plan=x)")
				left := max(0, 5-call)
				want := fmt.Sprintf("OK OK:0/1@1849 OK:%d/5@1849", left)
				policy := "RateLimit-Policy: \"plan\";q=5;w=3600\n"
				headers := policy + fmt.Sprintf("RateLimit: \"plan\";r=%d;t=1849", left)
				if call > 5 {
					want = "OVER OK:0/1@1849 OVER:0/5@1849"
					headers = policy + "RateLimit: \"plan\";r=0;t=1849\nRetry-After: 1849"
				}
				if got := show(response, err); got != want {
					t.Errorf("call %d: got %s, want %s", call, got, want)
				}
				if got := headersOf(response); got != headers {
					t.Errorf("call %d: got headers\n%s\nwant\n%s", call, got, headers)
				}
			}
			response, err := s.ask(t, "(trial=x)")
			if got := show(response, err); got != "OK OK:0/1@1849" || headersOf(response) != "" {
				t.Errorf("trial alone: %s with headers %q", got, headersOf(response))
			}
			if got := s.decisions(t)["t/trial shadow_over_limit"]; got != 9 {
				t.Errorf("%v denials in the shadow, want 9", got)
			}
		})
	}
}

func TestDeniedCostLeavesWhatIsLeft(t *testing.T) {
	for _, a := range algorithm.All {
		t.Run(a.Name, func(t *testing.T) {
			s := start(t, DefaultOptions(), costPolicy(a))
			for _, step := range []step{
				{0, "(cost=v) hits=8", "OK OK:2/10"},
				{0, "(cost=v) hits=5", "OVER OVER:0/10"},
				{0, "(cost=v) hits=2", "OK OK:0/10"},
				{0, "(cost=v) hits=1", "OVER OVER:0/10"},
				{0, "(cost=w) hits=11", "OVER OVER:0/10"},
				{0, "(cost=w) hits=10", "OK OK:0/10"},
			} {
				response, err := s.ask(t, step.ask)
				if got := withoutResets(show(response, err)); got != step.want {
					t.Errorf("%s: got %s, want %s", step.ask, got, step.want)
				}
			}
			if got := s.decisions(t); got["t/cost never_fits"] != 1 || got["t/cost over_limit"] != 2 {
				t.Errorf("counted %v", got)
			}
		})
	}
}

func TestLookWithoutTouchingAndGiveBack(t *testing.T) {
	for _, a := range algorithm.All {
		t.Run(a.Name, func(t *testing.T) {
			s := start(t, DefaultOptions(), costPolicy(a))
			response, err := s.ask(t, "(cost=z hits=0) hits=7")
			if got := show(response, err); got != "OK OK:10/10@0" && got != "OK OK:10/10@1849" {
				t.Errorf("first look: %s", got)
			}
			if len(s.store.states) != 0 {
				t.Error("a look left a key")
			}
			for i, step := range []step{
				{0, "(cost=z) hits=10", "OK OK:0/10"},
				{0, "(cost=z hits=0)", "OK OK:0/10"},
				{0, "(cost=z hits=4 back)", "OK OK:4/10"},
				{0, "(cost=z hits=0)", "OK OK:4/10"},
				{0, "(cost=z) hits=4", "OK OK:0/10"},
				{0, "(cost=z hits=99 back)", "OK OK:10/10"},
				{0, "(cost=z hits=0)", "OK OK:10/10"},
				{0, "(cost=z)", "OK OK:9/10"},
				{0, "(cost=z) hits=0", "OK OK:8/10"},
				{0, "(cost=z) hits=8", "OK OK:0/10"},
				{0, "(cost=z)", "OVER OVER:0/10"},
				{0, "(cost=z back)", "OK OK:1/10"},
				{0, "(cost=z)", "OK OK:0/10"},
			} {
				response, err := s.ask(t, step.ask)
				if got := withoutResets(show(response, err)); got != step.want {
					t.Errorf("step %d, %s: got %s, want %s", i, step.ask, got, step.want)
				}
			}
		})
	}
}

func costPolicy(a *algorithm.Algorithm) string {
	return "domain: t\ndescriptors:\n  - key: cost\n    rate_limit: {unit: hour, requests_per_unit: 10, algorithm: " + a.Name + "}\n"
}

func withoutResets(s string) string {
	words := strings.Fields(s)
	for i := range words {
		words[i], _, _ = strings.Cut(words[i], "@")
	}
	return strings.Join(words, " ")
}

func TestDenialSpeaksOfTheLimitThatDeniesLongest(t *testing.T) {
	o := DefaultOptions()
	o.Headers.Triple = true
	s := start(t, o, `
domain: t
descriptors:
  - key: daily
    rate_limit: {unit: day, requests_per_unit: 2}
  - key: minutely
    rate_limit: {unit: minute, requests_per_unit: 2}
  - key: roomy
    rate_limit: {unit: hour, requests_per_unit: 60}
`)
	statuses := map[string][3]string{
		"daily":    {"OK:1/2@73849", "OK:0/2@73849", "OVER:0/2@73849"},
		"minutely": {"OK:1/2@49", "OK:0/2@49", "OVER:0/2@49"},
		"roomy":    {"OK:59/60@1849", "OK:58/60@1849", "OK:58/60@1849"},
	}
	policy := "RateLimit-Policy: \"daily\";q=2;w=86400\n"
	triple := "RateLimit-Limit: 2\nRateLimit-Remaining: %d\nRateLimit-Reset: 73849"
	headers := [3]string{
		policy + "RateLimit: \"daily\";r=1;t=73849\n" + fmt.Sprintf(triple, 1),
		policy + "RateLimit: \"daily\";r=0;t=73849\n" + fmt.Sprintf(triple, 0),
		policy + "RateLimit: \"daily\";r=0;t=73849\nRetry-After: 73849\n" + fmt.Sprintf(triple, 0),
	}
	for i, order := range [][]string{
		{"daily", "minutely", "roomy"}, {"daily", "roomy", "minutely"}, {"minutely", "daily", "roomy"},
		{"minutely", "roomy", "daily"}, {"roomy", "daily", "minutely"}, {"roomy", "minutely", "daily"},
	} {
		for call := range 3 {
			var ask, want []string
			for _, key := range order {
				ask = append(ask, fmt.Sprintf("(%s=h%d)", key, i))
				want = append(want, statuses[key][call])
			}
			response, err := s.ask(t, strings.Join(ask, "+"))
			code := [3]string{"OK", "OK", "OVER"}[call]
			if got, want := show(response, err), code+" "+strings.Join(want, " "); got != want {
				t.Errorf("%v, call %d: got %s, want %s", order, call, got, want)
			}
			if got := headersOf(response); got != headers[call] {
				t.Errorf("%v, call %d: got headers\n%s\nwant\n%s", order, call, got, headers[call])
			}
		}
	}
}

// A client that waits for as long as it is told, and is alone, is let through.
func TestRetryAfterIsKept(t *testing.T) {
	for _, a := range algorithm.All {
		t.Run(a.Name, func(t *testing.T) {
			s := start(t, DefaultOptions(), "domain: t\ndescriptors:\n"+
				"  - key: k\n    rate_limits:\n"+
				"      - {unit: second, requests_per_unit: 3, algorithm: "+a.Name+"}\n"+
				"      - {unit: minute, requests_per_unit: 7, algorithm: "+a.Name+", name: slow}\n")
			denials := 0
			for call := range 200 {
				s.store.sleep(time.Duration(call%7) * 40 * time.Millisecond)
				response, err := s.ask(t, fmt.Sprintf("(k=v) hits=%d", 1+call%3))
				if err != nil {
					t.Fatal(err)
				}
				if response.OverallCode.String() == "OK" {
					continue
				}
				denials++
				i := slices.IndexFunc(response.ResponseHeadersToAdd, func(h *header) bool { return h.Key == "Retry-After" })
				if i < 0 {
					t.Fatal("a denial without Retry-After")
				}
				s.store.sleep(time.Duration(number(t, response.ResponseHeadersToAdd[i].Value)) * time.Second)
				again, err := s.ask(t, fmt.Sprintf("(k=v) hits=%d", 1+call%3))
				if err != nil || again.OverallCode.String() != "OK" {
					t.Fatalf("call %d: after %s s: %s, %v", call, response.ResponseHeadersToAdd[i].Value, show(again, err), response)
				}
			}
			if denials < 10 {
				t.Errorf("only %d denials: the history shows nothing", denials)
			}
		})
	}
}

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
