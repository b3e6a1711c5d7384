package service

import (
	"encoding/json"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
	"github.com/ratelimitd/ratelimitd/pkg/descriptors"
)

type header = corev3.HeaderValue

// limitNamed makes a limit as descriptors does, with any name.
func limitNamed(t testing.TB, name string, spec algorithm.Spec) *descriptors.Limit {
	t.Helper()
	limit, err := algorithm.NewLimit(spec)
	if err != nil {
		t.Fatal(err)
	}
	l := &descriptors.Limit{Limit: limit, Name: name, Multiplier: 1}
	l.Rule = &descriptors.Rule{
		Path:   []descriptors.PathEntry{{Key: "plan", Value: "free"}, {Key: "user"}},
		Limits: []*descriptors.Limit{l},
	}
	return l
}

// headers returns a reply of headers only.
func headers(t testing.TB, h Headers, v *view, d *algorithm.Decision, over bool) *rlsv3.RateLimitResponse {
	t.Helper()
	response, _ := replyOf(t, &Exchange{Reply: h.append(nil, v, d, over)})
	return response
}

func TestHeadersAreChosenBySetting(t *testing.T) {
	limit := limitNamed(t, "", algorithm.Spec{Requests: 100, Window: time.Minute})
	limit.Unit = 2
	v := newView(limit, algorithm.Precise, nil)
	allowed := algorithm.Decision{Outcome: algorithm.Allowed, Remaining: 40, Reset: 20100 * time.Millisecond}
	denied := algorithm.Decision{Outcome: algorithm.Denied, Remaining: 4, Reset: time.Minute, RetryAfter: time.Millisecond}
	for _, row := range []struct {
		name string
		h    Headers
		d    algorithm.Decision
		want string
	}{
		{"none", Headers{}, denied, ""},
		{"structured", Headers{RateLimit: true, RateLimitPolicy: true, RetryAfter: true}, allowed,
			"RateLimit-Policy: \"plan/user\";q=100;w=60\nRateLimit: \"plan/user\";r=40;t=21"},
		{"structured, denied", Headers{RateLimit: true, RateLimitPolicy: true, RetryAfter: true}, denied,
			"RateLimit-Policy: \"plan/user\";q=100;w=60\nRateLimit: \"plan/user\";r=0;t=1\nRetry-After: 1"},
		{"triple", Headers{Triple: true}, allowed,
			"RateLimit-Limit: 100\nRateLimit-Remaining: 40\nRateLimit-Reset: 21"},
		{"x", Headers{XTriple: true, RetryAfter: true}, denied,
			"Retry-After: 1\nX-RateLimit-Limit: 100\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1"},
	} {
		if got := headersOf(headers(t, row.h, &v, &row.d, row.d.Outcome == algorithm.Denied)); got != row.want {
			t.Errorf("%s: got\n%s\nwant\n%s", row.name, got, row.want)
		}
	}
}

func TestPolicyNames(t *testing.T) {
	minute := algorithm.Spec{Requests: 5, Window: time.Minute}
	for _, row := range []struct {
		name   string
		limit  *descriptors.Limit
		policy string
	}{
		{"its own", limitNamed(t, "burst", minute), `"burst";q=5;w=60`},
		{"quotation marks", limitNamed(t, `a"b\c`, minute), `"a\"b\\c";q=5;w=60`},
		{"a response that would be split", limitNamed(t, "a\r\nSet-Cookie: b", minute), `"a%0D%0ASet-Cookie: b";q=5;w=60`},
		{"not ASCII", limitNamed(t, "é\xff\x00", minute), `"%C3%A9%FF%00";q=5;w=60`},
		{"half a second", limitNamed(t, "", algorithm.Spec{Requests: 5, Window: 500 * time.Millisecond}), `"plan/user";q=5`},
		{"an override", &descriptors.Limit{Limit: limitNamed(t, "", minute).Limit, Rule: &descriptors.Rule{}}, `"override";q=5;w=60`},
	} {
		if got := newView(row.limit, algorithm.Precise, nil).policy; got != row.policy {
			t.Errorf("%s: got %s, want %s", row.name, got, row.policy)
		}
	}
}

// safeValue is what a header may hold: visible ASCII and spaces.
var safeValue = regexp.MustCompile(`^[ -~]*$`)

// structured is a string of structured fields, then parameters.
var structured = regexp.MustCompile(`^"([ !#-\[\]-~]|\\["\\])*"(;[a-z]+=[0-9]{1,15})+$`)

// Whatever a policy calls its limits, nothing but the header's own value
// reaches a client, and bodies stay JSON.
func TestNoNameSplitsAResponse(t *testing.T) {
	alphabet := []string{"\r", "\n", "\r\n", "\x00", `"`, `\`, "a", " ", ";", ",", "é", "\xff", "\x7f", "%", "\t", "x: y"}
	random := rand.New(rand.NewPCG(1, 2))
	h := Headers{RateLimit: true, RateLimitPolicy: true, RetryAfter: true, Triple: true, XTriple: true}
	denied := algorithm.Decision{Outcome: algorithm.Denied, RetryAfter: time.Hour}
	for range 2000 {
		var name strings.Builder
		for range random.IntN(12) {
			name.WriteString(alphabet[random.IntN(len(alphabet))])
		}
		v := newView(limitNamed(t, name.String(), algorithm.Spec{Requests: 1 << 31, Window: algorithm.MaxWindow}), algorithm.Precise, nil)
		for _, header := range headers(t, h, &v, &denied, true).ResponseHeadersToAdd {
			if !safeValue.MatchString(header.Value) || len(header.RawValue) > 0 {
				t.Fatalf("name %q: header %q", name.String(), header)
			}
			if strings.HasPrefix(header.Value, `"`) && !structured.MatchString(header.Value) {
				t.Fatalf("name %q: %s is not a structured field: %q", name.String(), header.Key, header.Value)
			}
		}
		reply := appendStatus(nil, descriptorStatus{limit: &v})
		response, _ := replyOf(t, &Exchange{Reply: reply})
		if wire := response.Statuses[0].CurrentLimit.Name; !safeValue.MatchString(wire) || strings.ContainsAny(wire, `"\`) {
			t.Fatalf("name %q: current_limit.name %q", name.String(), wire)
		}
		if body := appendProblem(nil, &v, &denied); !json.Valid(body) {
			t.Fatalf("name %q: body %s", name.String(), body)
		}
	}
}

func TestProblem(t *testing.T) {
	limit := limitNamed(t, `the "free" plan`, algorithm.Spec{Requests: 60, Window: 5 * time.Minute})
	limit.Unit, limit.Multiplier = 2, 5
	v := newView(limit, algorithm.Precise, nil)
	for _, row := range []struct {
		d    algorithm.Decision
		want string
	}{
		{algorithm.Decision{Outcome: algorithm.Denied, RetryAfter: 41500 * time.Millisecond},
			`{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Too Many Requests","error":"rate_limited",` +
				`"message":"The limit of 60 requests per 5 minutes is reached; try again in 42 s.","retry_after":42,"violated-policies":["the \"free\" plan"]}`},
		{algorithm.Decision{Outcome: algorithm.Denied, Never: true, RetryAfter: 5 * time.Minute},
			`{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Too Many Requests","error":"rate_limited",` +
				`"message":"The request costs more than the limit of 60 requests per 5 minutes ever allows at once.","retry_after":300,"violated-policies":["the \"free\" plan"]}`},
	} {
		got := appendProblem(nil, &v, &row.d)
		if string(got) != row.want+"\n" || !json.Valid(got) {
			t.Errorf("got\n%s\nwant\n%s", got, row.want)
		}
	}
}
