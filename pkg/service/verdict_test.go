package service

import (
	"strings"
	"testing"
	"time"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// Each row is a request by what its limits answered:
//
//	allow, deny          the store decided
//	none                 nobody did, and the failure policy is error
//	policy-allow, -deny  a failure policy did
//
// with "shadow " or "quota " in front of it.
func TestOverallCode(t *testing.T) {
	for _, row := range []struct{ answers, want string }{
		{"", "OK"},
		{"allow", "OK"},
		{"deny", "OVER"},
		{"allow, deny", "OVER"},
		{"none", "error"},
		{"allow, none", "error"},
		{"none, deny", "OVER"},
		{"policy-allow", "OK"},
		{"policy-deny", "OVER"},
		{"policy-deny, none, policy-allow, allow", "OVER"},
		{"none, policy-allow", "error"},
		{"shadow deny", "OK"},
		{"shadow none", "OK"},
		{"shadow deny, shadow none, allow", "OK"},
		{"shadow allow, deny", "OVER"},
		{"quota allow", "OK"},
		{"quota deny", "OVER"},
		{"quota deny, quota allow", "OK"},
		{"quota deny, quota deny", "OVER"},
		{"quota deny, quota deny, allow", "OVER"},
		{"quota allow, deny", "OVER"},
		{"quota none", "error"},
		{"quota none, quota allow", "OK"},
		{"quota none, quota deny", "error"},
		{"quota none, quota deny, deny", "OVER"},
		{"quota none, shadow deny", "error"},
	} {
		asks, decisions := answers(t, row.answers)
		v := judge(asks, decisions)
		got := "OK"
		switch {
		case v.over && v.failed:
			got = "both"
		case v.over:
			got = "OVER"
		case v.failed:
			got = "error"
		}
		if got != row.want {
			t.Errorf("%s: got %s, want %s", row.answers, got, row.want)
		}
		if v.failed && v.failure != errStoreGone {
			t.Errorf("%s: because of %v", row.answers, v.failure)
		}
		if v.over && (v.speaker < 0 || decisions[v.speaker].Outcome != algorithm.Denied) {
			t.Errorf("%s: the headers speak of %d", row.answers, v.speaker)
		}
	}
}

func answers(t *testing.T, text string) ([]algorithm.Ask, []algorithm.Decision) {
	limit, err := algorithm.NewLimit(algorithm.Spec{Requests: 10, Window: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	var asks []algorithm.Ask
	var decisions []algorithm.Decision
	for answer := range strings.SplitSeq(text, ", ") {
		if answer == "" {
			continue
		}
		answer, shadow := strings.CutPrefix(answer, "shadow ")
		answer, quota := strings.CutPrefix(answer, "quota ")
		asks = append(asks, algorithm.Ask{Limit: limit, Shadow: shadow, Quota: quota})
		decisions = append(decisions, map[string]algorithm.Decision{
			"allow":        {Outcome: algorithm.Allowed, Remaining: 3, Reset: time.Minute},
			"deny":         {Outcome: algorithm.Denied, RetryAfter: time.Second},
			"none":         {Err: errStoreGone},
			"policy-allow": {Outcome: algorithm.Allowed, Degraded: true, Err: errStoreGone},
			"policy-deny":  {Outcome: algorithm.Denied, Degraded: true, Err: errStoreGone},
		}[answer])
	}
	return asks, decisions
}

// What a failure policy allowed has no numbers to show; what it denied says to
// come back in a second.
func TestRepliesWithoutAStore(t *testing.T) {
	none := algorithm.Decision{Err: errStoreGone}
	allow := algorithm.Decision{Outcome: algorithm.Allowed, Degraded: true, Remaining: 2, Err: errStoreGone}
	deny := algorithm.Decision{Outcome: algorithm.Denied, Degraded: true, Err: errStoreGone}
	for _, row := range []struct {
		name       string
		site, acct algorithm.Decision
		want       string
		headers    string
	}{
		{"error", none, none, "Unavailable", ""},
		{"allow", allow, allow, "OK OK OK", ""},
		{"deny", deny, deny, "OVER OVER:0/10@1 OVER:0/3@1",
			"RateLimit-Policy: \"acct\";q=3;w=3600\nRateLimit: \"acct\";r=0;t=1\nRetry-After: 1"},
		{"deny before error", none, deny, "OVER OK OVER:0/3@1",
			"RateLimit-Policy: \"acct\";q=3;w=3600\nRateLimit: \"acct\";r=0;t=1\nRetry-After: 1"},
		{"error before allow", allow, none, "Unavailable", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			o := DefaultOptions()
			o.Metadata = true
			s := start(t, o, sitePolicy)
			s.store.decided = func(_ []algorithm.Ask, out []algorithm.Decision) {
				out[0], out[1] = row.site, row.acct
			}
			response, err := s.ask(t, "(site=s)+(acct=u)")
			if got := show(response, err); got != row.want {
				t.Errorf("got %s, want %s", got, row.want)
			}
			if got := headersOf(response); got != row.headers {
				t.Errorf("got headers\n%s\nwant\n%s", got, row.headers)
			}
			if err == nil && !response.DynamicMetadata.Fields["degraded"].GetBoolValue() {
				t.Errorf("metadata %v", response.DynamicMetadata)
			}
		})
	}
}

func TestSecondsAreRoundedUp(t *testing.T) {
	for _, row := range []struct {
		d    time.Duration
		want int64
	}{{-time.Second, 0}, {0, 0}, {1, 1}, {time.Second, 1}, {time.Second + 1, 2}, {algorithm.MaxWindow, 3153600000}} {
		if got := seconds(row.d); got != row.want {
			t.Errorf("%v: got %d, want %d", row.d, got, row.want)
		}
	}
}
