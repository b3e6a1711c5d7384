package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	_ "time/tzdata"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
	"github.com/ratelimitd/ratelimitd/pkg/descriptors"
)

// load compiles the samples as the program does.
func load(t *testing.T) ([]descriptors.File, *descriptors.Rules) {
	t.Helper()
	files, err := descriptors.ReadFS(Policies(), 0)
	if err != nil || len(files) == 0 {
		t.Fatalf("%d samples, %v", len(files), err)
	}
	rules, err := descriptors.Compile(files, descriptors.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return files, rules
}

// TestEachSampleLoads compiles every file on its own, so that it can be copied
// alone, and all together, as they are embedded and as they lie in the folder.
func TestEachSampleLoads(t *testing.T) {
	files, rules := load(t)
	for _, file := range files {
		for _, counting := range []algorithm.Counting{algorithm.Precise, algorithm.Reference} {
			if _, err := descriptors.Compile([]descriptors.File{file}, descriptors.Options{Counting: counting}); err != nil {
				t.Errorf("counting %d: %v", counting, err)
			}
		}
	}
	folder, err := descriptors.ReadDir("policies", 0)
	if err != nil {
		t.Fatal(err)
	}
	same, err := descriptors.Compile(folder, descriptors.Options{})
	if err != nil || same.Revision() != rules.Revision() {
		t.Errorf("the folder holds other files than the program: %v", err)
	}
}

// TestEachSampleHasItsEnvoySide wants a file in envoy for each in policies, and
// each of the two to name the other.
func TestEachSampleHasItsEnvoySide(t *testing.T) {
	for _, sides := range [][2]string{{"policies", "envoy"}, {"envoy", "policies"}} {
		err := filepath.WalkDir(sides[0], func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			other := filepath.ToSlash(filepath.Join(sides[1], strings.TrimPrefix(path, sides[0])))
			if _, err := os.Stat(other); errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s has no %s", path, other)
			}
			text, err := os.ReadFile(path)
			if !strings.Contains(string(text), "config/"+other) {
				t.Errorf("%s does not name %s", path, other)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestTheFirstExample is what README.md asks first.
func TestTheFirstExample(t *testing.T) {
	_, rules := load(t)
	rule := match(t, rules, "edge", "user=alice")
	if rule == nil || len(rule.Limits) != 1 || rule.Limits[0].Limit.Requests != 10 || rule.Limits[0].Limit.Algorithm.Name != "token_bucket" {
		t.Errorf("rule %+v", rule)
	}
}

// TestPlans is the table of plans that the samples promise.
func TestPlans(t *testing.T) {
	_, rules := load(t)
	for plan, want := range map[string]int64{"free": 100, "starter": 1000, "business": 10000, "enterprise": 50000, "unheard": 100} {
		rule := match(t, rules, "edge", "plan="+plan+", tenant=acme")
		if rule == nil || len(rule.Limits) != 1 {
			t.Errorf("plan %s: rule %+v", plan, rule)
			continue
		}
		if l := rule.Limits[0]; l.Limit.Requests != want || l.Unit != 2 || l.Multiplier != 1 {
			t.Errorf("plan %s has %d per %v, want %d a minute", plan, l.Limit.Requests, l.Limit.Window, want)
		}
	}
}

// match returns the rule of a descriptor that is written as key=value, key=value.
func match(t *testing.T, rules *descriptors.Rules, domain, descriptor string) *descriptors.Rule {
	t.Helper()
	d := rules.Domain([]byte(domain))
	if d == nil {
		t.Fatalf("no domain %s", domain)
	}
	var entries []descriptors.Entry
	for pair := range strings.SplitSeq(descriptor, ", ") {
		key, value, _ := strings.Cut(pair, "=")
		entries = append(entries, descriptors.Entry{Key: []byte(key), Value: []byte(value)})
	}
	return d.Match(entries)
}
