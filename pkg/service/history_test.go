package service

import (
	"fmt"
	"strings"
	"sync"
	"testing"

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
