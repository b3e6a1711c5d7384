package service

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// show writes an account in a line.
func (a *Account) show() string {
	words := []string{fmt.Sprintf("%s %d %s", a.Domain, a.Descriptors, a.Code)}
	if len(a.DeniedBy) > 0 {
		words = append(words, "by "+strings.Join(a.DeniedBy, ","))
	}
	if a.Degraded {
		words = append(words, "degraded "+a.DegradedBy.String())
	}
	if !a.Asked.IsZero() && !a.Decided.Before(a.Asked) {
		words = append(words, "asked")
	}
	if a.Failure != nil {
		words = append(words, a.Failure.Error())
	}
	return strings.Join(words, "; ")
}

// An account tells what was decided and by which limit, in the policy's words,
// of the requests that have one.
func TestAccount(t *testing.T) {
	policy := degradedPolicy + `
  - {key: shut, rate_limit: {unit: hour, requests_per_unit: 0}}
  - {key: path, value: /login, rate_limit: {unit: hour, requests_per_unit: 0}}
  - {key: dark, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 0}}
  - {key: known, rate_limit: {unit: hour, requests_per_unit: 0}}
`
	s := start(t, Options{}, policy)
	s.store.decided = func(asks []algorithm.Ask, out []algorithm.Decision) {
		for i := range asks {
			switch {
			case strings.Contains(string(asks[i].Key), "known"):
				out[i].Known = true
			case asks[i].OnStoreError == algorithm.FailLocal:
				out[i].Degraded = true
			case asks[i].OnStoreError == algorithm.FailDeny:
				out[i] = algorithm.Decision{Outcome: algorithm.Denied, Degraded: true, Err: errStoreGone}
			case asks[i].OnStoreError == algorithm.FailAllow:
				out[i] = algorithm.Decision{Outcome: algorithm.Undecided, Err: errStoreGone}
			}
		}
	}
	for ask, want := range map[string]string{
		"(error=1)":                    "t 1 OK; asked",
		"(none=1)":                     "t 1 OK",
		"(error=1) domain=other":       "other 1 OK",
		"(error=1) domain=":            " 1 UNKNOWN",
		"(shut=1)+(error=1)":           "t 2 OVER_LIMIT; by t/shut; asked",
		"(shut=1)+(path=/login)":       "t 2 OVER_LIMIT; by t/shut,t/path=/login; asked",
		"(dark=1)":                     "t 1 OK; asked",
		"(known=1)":                    "t 1 OVER_LIMIT; by t/known",
		"(known=1)+(error=1)":          "t 2 OVER_LIMIT; by t/known; asked",
		"(local=1)":                    "t 1 OK; degraded local; asked",
		"(deny=1)":                     "t 1 OVER_LIMIT; by t/deny; degraded deny; asked; the store is gone",
		"(allow=1)":                    "t 1 UNKNOWN; asked; the store is gone",
		strings.Repeat("(shut=1)", 20): "t 20 OVER_LIMIT; by t/shut" + strings.Repeat(",t/shut", 15) + "; asked",
		"(error=1 limit=0/DAY)":        "t 1 OVER_LIMIT; by t override; asked",
	} {
		wire, err := proto.Marshal(parse(t, ask))
		if err != nil {
			t.Fatal(err)
		}
		var first, last Account
		batch := []Exchange{{Request: wire, Account: &first}, {Request: wire}, {Request: wire, Account: &last}}
		s.Answer(t.Context(), batch)
		for _, a := range []*Account{&first, &last} {
			if got := a.show(); got != want {
				t.Errorf("%s:\ngot  %s\nwant %s", ask, got, want)
			}
		}
		var one Account
		_, _ = s.ShouldRateLimit(WithAccount(t.Context(), &one), parse(t, ask))
		if got := one.show(); got != want {
			t.Errorf("%s, alone:\ngot  %s\nwant %s", ask, got, want)
		}
	}
	var a Account
	batch := []Exchange{{Request: []byte{1}, Account: &a}, {TooLarge: true, Request: nil, Account: new(Account)}}
	s.Answer(t.Context(), batch)
	if got := a.show(); got != " 0 UNKNOWN" {
		t.Error(got)
	}
}
