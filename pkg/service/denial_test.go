package service

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

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
