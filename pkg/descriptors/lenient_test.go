package descriptors

import (
	"strings"
	"testing"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

var lenient = Options{Lenient: true, OneFileEach: true, Counting: algorithm.Reference}

// What envoyproxy/ratelimit takes is taken, with a warning for what does not mean what it seems to. Without leniency each of
// these is an error at the same place.
func TestLenientFiles(t *testing.T) {
	for name, files := range cases(t, "lenient") {
		t.Run(name, func(t *testing.T) {
			rules, err := Compile(files, lenient)
			if err != nil {
				t.Fatal(err)
			}
			var text strings.Builder
			for _, w := range rules.Warnings() {
				text.WriteString(w.Error() + "\n")
			}
			golden(t, "lenient/"+name, text.String()+"\n"+describe(rules))
			if _, err := Compile(files, Options{}); err == nil {
				t.Error("no error without leniency")
			}
		})
	}
}

// What it does not take is an error here, too.
func TestLenientIsNotBlind(t *testing.T) {
	for _, text := range []string{
		"", "# nothing\n", "domain: ''\n", "domain: d\nunit_multiplier: 2\n", "domain: d\ndescriptors: [{key: k, burst: 2}]\n",
		"domain: d\ndescriptors: [{key: k, rate_limit: {requests_per_unit: 1}}]\n",
		"domain: d\ndescriptors: [{key: k, rate_limit: {requests_per_unit: 1, key: misplaced}}]\n",
		"domain: d\ndescriptors: [{key: k, rate_limit: {unlimited: true, unit: day}}]\n",
		"domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 1.5}}]\n",
		"domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, name: n, replaces: [{name: n}]}}]\n",
		"domain: d\ndescriptors: [{key: k, share_threshold: true}]\n",
		"domain: d\ndescriptors: [{key: k}, {key: k}]\n",
		"domain: d\ndescriptors: [{value: k}]\n",
	} {
		if _, err := Compile([]File{{Name: "a", Text: []byte(text)}}, lenient); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
	both := []File{{Name: "a", Text: []byte("domain: d\n")}, {Name: "b", Text: []byte("domain: d\n")}}
	if _, err := Compile(both, lenient); err == nil || !strings.HasPrefix(err.Error(), `b:1:9: domain: duplicate domain "d" in config file`) {
		t.Errorf("a domain in two files: %v", err)
	}
	if _, err := Compile(both, Options{Lenient: true}); err != nil {
		t.Errorf("merged: %v", err)
	}
}

// A prefix begins each key, and moves none in a Cluster.
func TestKeyPrefix(t *testing.T) {
	const text = "domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 1}}]\n"
	for _, value := range []string{"v", strings.Repeat("v", 300), strings.Repeat("v", 10_000)} {
		var keys [2]string
		for i, prefix := range []string{"", "rl:"} {
			rules, err := Compile([]File{{Name: "a", Text: []byte(text)}}, Options{KeyPrefix: prefix})
			if err != nil {
				t.Fatal(err)
			}
			entries := []Entry{{Key: []byte("k"), Value: []byte(value)}}
			keys[i] = string(rules.Domain([]byte("d")).Match(entries).Limits[0].AppendKey(nil, entries))
		}
		if keys[1] != "rl:"+keys[0] {
			t.Errorf("%q, and with a prefix %q", keys[0], keys[1])
		}
	}
}
