package resource

import (
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
	"github.com/ratelimitd/ratelimitd/pkg/descriptors"
)

var update = flag.Bool("update", false, "write the golden files anew")

// config reads a resource from JSON.
func config(t testing.TB, text string) *ratelimitv3.RateLimitConfig {
	t.Helper()
	c := &ratelimitv3.RateLimitConfig{}
	if err := protojson.Unmarshal([]byte(text), c); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return c
}

// packed are resources as a response has them.
func packed(t testing.TB, configs ...*ratelimitv3.RateLimitConfig) []*anypb.Any {
	t.Helper()
	all := make([]*anypb.Any, len(configs))
	for i, c := range configs {
		var err error
		if all[i], err = anypb.New(c); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// compile makes rules of resources, as the program does.
func compile(t testing.TB, configs ...*ratelimitv3.RateLimitConfig) (*descriptors.Rules, error) {
	t.Helper()
	files, err := Policies(packed(t, configs...))
	if err != nil {
		return nil, err
	}
	return descriptors.Compile(files, descriptors.Options{})
}

// show is a limit on a line.
func show(l *descriptors.Limit) string {
	text := fmt.Sprintf("%s: %d per %v, %s", l.ID, l.Limit.Requests, l.Limit.Window, l.Limit.Algorithm.Name)
	for _, word := range []struct {
		name string
		set  bool
	}{
		{"shadow", l.Shadow}, {"quota", l.Quota}, {"name " + l.Name, l.Name != ""},
		{fmt.Sprint("burst ", l.Limit.Capacity), l.Limit.Capacity != l.Limit.Requests},
		{"metadata " + fmt.Sprint(l.Rule.Metadata.AsMap()), l.Rule.Metadata != nil},
		{"shared", l.Rule.Path[len(l.Rule.Path)-1].Share},
		{"replaces " + strings.Join(l.Rule.Replaces, " "), len(l.Rule.Replaces) > 0},
		{"deny", l.OnStoreError == algorithm.FailDeny},
	} {
		if word.set {
			text += ", " + word.name
		}
	}
	return text
}

// Every field of the messages means what the same field of a file means, and
// metadata.ratelimitd holds those that the messages do not have.
func TestFields(t *testing.T) {
	for _, row := range []struct{ descriptor, want string }{
		{`{"key": "k", "rate_limit": {"unit": "MINUTE", "requests_per_unit": 3}}`, "d/k: 3 per 1m0s, fixed_window"},
		{`{"key": "k", "value": "v", "rate_limit": {"unit": "WEEK", "requests_per_unit": 4294967295}}`, "d/k=v: 4294967295 per 168h0m0s, fixed_window"},
		{`{"key": "k", "rate_limit": {"unit": "MONTH"}}`, "d/k: 0 per 720h0m0s, fixed_window"},
		{`{"key": "k", "rate_limit": {"unlimited": true}}`, ""},
		{`{"key": "k"}`, ""},
		{`{"key": "k", "shadow_mode": true, "quota_mode": true, "detailed_metric": true, "rate_limit": {"unit": "DAY", "requests_per_unit": 1}}`,
			"d/k: 1 per 24h0m0s, fixed_window, shadow, quota"},
		{`{"key": "k", "descriptors": [{"key": "007", "value": "yes", "rate_limit": {"unit": "YEAR", "requests_per_unit": 1, "name": "n"}}]}`,
			"d/k/007=yes: 1 per 8760h0m0s, fixed_window, name n"},
		{`{"key": "k", "rate_limit": {"unit": "HOUR", "requests_per_unit": 1, "name": "a"}, "descriptors": [{"key": "b", "rate_limit": {"unit": "HOUR", "requests_per_unit": 2, "replaces": [{"name": "a"}]}}]}`,
			"d/k: 1 per 1h0m0s, fixed_window, name a; d/k/b: 2 per 1h0m0s, fixed_window, replaces a"},
		{`{"key": "k", "rate_limit": {"unit": "SECOND", "requests_per_unit": 1}, "metadata": {"team": "a", "n": 1.5, "yes": "yes", "l": [null, true, {"x": 3}]}}`,
			"d/k: 1 per 1s, fixed_window, metadata map[l:[<nil> true map[x:3]] n:1.5 team:a yes:yes]"},
		{`{"key": "k", "value": "a*", "rate_limit": {"unit": "SECOND", "requests_per_unit": 5}, "metadata": {"ratelimitd": {"share_threshold": true, "rate_limit": {"algorithm": "token_bucket", "burst": 20, "on_store_error": "deny"}}, "team": "a"}}`,
			"d/k=a*: 5 per 1s, token_bucket, burst 20, metadata map[team:a], shared, deny"},
		{`{"key": "k", "rate_limit": {"requests_per_unit": 5}, "metadata": {"ratelimitd": {"rate_limit": {"window": "30s"}}}}`,
			"d/k: 5 per 30s, fixed_window"},
		{`{"key": "k", "rate_limit": {"unit": "MINUTE", "requests_per_unit": 5}, "metadata": {"ratelimitd": {"rate_limit": {"requests_per_unit": 7}}}}`,
			"d/k: 7 per 1m0s, fixed_window"},
		{`{"key": "k", "metadata": {"ratelimitd": {"rate_limits": [{"requests_per_unit": 1, "unit": "second"}, {"requests_per_unit": 9, "unit": "hour"}]}}}`,
			"d/k fixed_window 1s: 1 per 1s, fixed_window; d/k fixed_window 1h0m0s: 9 per 1h0m0s, fixed_window"},
		{`{"key": "k", "rate_limit": {"unit": "MINUTE", "requests_per_unit": 5}, "metadata": {"ratelimitd": {}}}`, "d/k: 5 per 1m0s, fixed_window"},
	} {
		rules, err := compile(t, config(t, `{"name": "r", "domain": "d", "descriptors": [`+row.descriptor+`]}`))
		if err != nil {
			t.Errorf("%s: %v", row.descriptor, err)
			continue
		}
		var got []string
		for _, l := range rules.Limits() {
			got = append(got, show(l))
		}
		if text := strings.Join(got, "; "); text != row.want {
			t.Errorf("%s:\n got %s\nwant %s", row.descriptor, text, row.want)
		}
	}
}

// The shapes that Envoy Gateway makes are taken as they are.
func TestEnvoyGatewaysShapes(t *testing.T) {
	files, err := Policies(packed(t, gateway(t)...))
	if err != nil {
		t.Fatal(err)
	}
	rules, err := descriptors.Compile(files, descriptors.Options{Counting: algorithm.Reference})
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, l := range rules.Limits() {
		got.WriteString(show(l) + "\n")
	}
	golden(t, "gateway", got.String())
}

// gateway returns resources such as Envoy Gateway makes: a domain for each
// listener, and one for each policy that routes share.
func gateway(t testing.TB) []*ratelimitv3.RateLimitConfig {
	t.Helper()
	const limit = `"rate_limit": {"unit": "HOUR", "requests_per_unit": %d}`
	leaf := func(key, value string, n int) string {
		return fmt.Sprintf(`{"key": %q, "value": %q, `+limit+`}`, key, value, n)
	}
	inner := func(key, value string, below ...string) string {
		return fmt.Sprintf(`{"key": %q, "value": %q, "descriptors": [%s]}`, key, value, strings.Join(below, ", "))
	}
	listener := func(name string, routes ...string) *ratelimitv3.RateLimitConfig {
		return config(t, fmt.Sprintf(`{"name": %q, "domain": %q, "descriptors": [%s]}`, name, name, strings.Join(routes, ", ")))
	}
	const (
		route  = "httproute/default/users/rule/0/match/0/*"
		other  = "httproute/default/users/rule/0/match/0/*_example_com" // which the one before hides, but for itself
		shared = "default/everyone/rule/0"
	)
	return []*ratelimitv3.RateLimitConfig{
		listener(
			"default/gateway/http",
			inner(route, route,
				leaf("rule-0-match-0", "", 1),
				leaf("rule-0-match-0", "client-a", 2),
				inner("rule-1-match-0", "rule-1-match-0", inner("rule-1-method", "rule-1-method", leaf("rule-1-path", "rule-1-path", 3))),
				inner("masked_remote_address", "192.168.0.0/16", leaf("remote_address", "", 4)),
				leaf("masked_remote_address", "invert:192.168.0.0/24", 5),
				leaf("rule-4-match--1", "rule-4-match--1", 6),
			),
			inner(other, other, `{"key": "rule-0-match--1", "value": "rule-0-match--1", "shadow_mode": true, "rate_limit": {"unit": "WEEK", "requests_per_unit": 7}}`),
		),
		listener("default/everyone", inner(shared, shared, leaf("rule-0-match--1", "rule-0-match--1", 8))),
	}
}

// What is wrong is told with the name of the resource and the path.
func TestRefusals(t *testing.T) {
	var got strings.Builder
	for _, texts := range [][]string{
		{`{"name": "a", "domain": "d", "descriptors": [{"key": "k", "rate_limit": {"requests_per_unit": 1}}]}`},
		{`{"name": "a", "domain": "d", "descriptors": [{"key": "k", "rate_limit": {"unit": 99, "requests_per_unit": 1}}]}`},
		{`{"name": "a", "descriptors": [{}]}`},
		{`{"domain": "d", "descriptors": [{"key": "k"}, {"key": "k"}]}`},
		{`{"name": "a", "domain": "d", "descriptors": [{"key": "k"}]}`, `{"name": "b", "domain": "d", "descriptors": [{"key": "k"}]}`},
		{`{"name": "a", "domain": "d", "descriptors": [{"key": "k", "rate_limit": {"unlimited": true, "unit": "DAY"}}]}`},
		{`{"name": "a", "domain": "d", "descriptors": [{"key": "k", "rate_limit": {"unit": "DAY", "replaces": [{}, {"name": "x"}]}}]}`},
		{`{"name": "a", "domain": "d", "descriptors": [{"key": "k", "metadata": {"ratelimitd": {"share_threshold": "yes", "shadow": true}}}]}`},
		{`{"name": "a", "domain": "d", "descriptors": [{"key": "k", "rate_limit": {"unit": "DAY"}, "metadata": {"ratelimitd": {"rate_limit": {"burst": 1.5}}}}]}`},
		{`{"name": "a", "domain": "d", "descriptors": [{"key": "k", "descriptors": [{"key": "l", "metadata": {"ratelimitd": 1}}]}]}`},
		{`{"name": "two\nlines", "domain": "d", "descriptors": [{}]}`},
	} {
		configs := make([]*ratelimitv3.RateLimitConfig, len(texts))
		for i, text := range texts {
			configs[i] = config(t, text)
		}
		_, err := compile(t, configs...)
		if err == nil {
			t.Errorf("%s is taken", texts)
			continue
		}
		fmt.Fprintf(&got, "%s\n%v\n\n", strings.Join(texts, "\n"), err)
	}
	nan := config(t, `{"name": "a", "domain": "d", "descriptors": [{"key": "k", "metadata": {}}]}`)
	nan.Descriptors[0].Metadata.Fields = map[string]*structpb.Value{"n": structpb.NewNumberValue(math.NaN())}
	_, err := compile(t, nan)
	fmt.Fprintf(&got, "a number that is none\n%v\n\n", err)
	_, err = Policies([]*anypb.Any{{TypeUrl: "type.googleapis.com/x"}, {TypeUrl: TypeURL, Value: []byte{1}}})
	fmt.Fprintf(&got, "no resources\n%v\n", err)
	// The protobuf library writes a space one way or the other.
	golden(t, "refusals", strings.ReplaceAll(got.String(), "\u00a0", " "))
}

// Resources may come in any order, and make the same rules.
func TestOrderDoesNotMatter(t *testing.T) {
	all := gateway(t)
	one, err := compile(t, all[0], all[1])
	if err != nil {
		t.Fatal(err)
	}
	two, err := compile(t, all[1], all[0])
	if err != nil {
		t.Fatal(err)
	}
	if one.Revision() != two.Revision() {
		t.Errorf("the revisions are %s and %s", one.Revision(), two.Revision())
	}
}

// golden compares a text with testdata/NAME.txt.
func golden(t *testing.T, name, got string) {
	t.Helper()
	name = filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (go test -update writes it anew):\n%s", name, got)
	}
}

// FuzzResource feeds any bytes in place of a resource. Nothing panics, and an
// error is made of lines.
func FuzzResource(f *testing.F) {
	for _, c := range gateway(f) {
		raw, err := proto.Marshal(c)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	for _, text := range []string{
		`{"name": "a", "domain": "d", "descriptors": [{"key": "k", "value": "*", "rate_limit": {"unit": 99, "replaces": [{}]}, "metadata": {"ratelimitd": {"share_threshold": true, "rate_limits": [{}]}, "x": [1, null, "y", {"<<": 1}]}}]}`,
		`{"name": "\u0000\n", "descriptors": [{"metadata": {"ratelimitd": 1}}, {"key": "k", "metadata": {"ratelimitd": {"key": "l", "descriptors": [{}]}}}]}`,
	} {
		raw, err := proto.Marshal(config(f, text))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) > 1<<16 {
			return
		}
		files, err := Policies([]*anypb.Any{{TypeUrl: TypeURL, Value: raw}})
		if err == nil {
			_, err = descriptors.Compile(files, descriptors.Options{})
		}
		if err == nil {
			return
		}
		if strings.ContainsAny(strings.ReplaceAll(err.Error(), "\n", ""), "\r\x00") {
			t.Errorf("%q is not made of lines", err)
		}
	})
}
