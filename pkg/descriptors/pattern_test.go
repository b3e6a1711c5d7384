package descriptors

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

func TestPattern(t *testing.T) {
	for _, row := range []struct {
		pattern, value string
		want           bool
	}{
		{"*", "", true},
		{"*", "x\x00\xff", true},
		{"a*", "a", true},
		{"a*", "b", false},
		{"*a", "ba", true},
		{"*a", "ab", false},
		{"a*a", "a", false}, // parts do not overlap
		{"a*a", "aa", true},
		{"a*b*c", "abc", true},
		{"a*b*c", "a/b_c", true},
		{"a*b*c", "acb", false},
		{"*ab*ab*", "aab ab", true},
		{"*ab*ab*", "abab", true},
		{"*ab*ab*", "aba", false},
		{"ab*bc", "abc", false},
		{"**", "x", true},
		{"a**b", "ab", true},
	} {
		if got := newPattern(row.pattern).match([]byte(row.value)); got != row.want {
			t.Errorf("%q matches %q: %v, want %v", row.pattern, row.value, got, row.want)
		}
	}
}

// TestFindAgreesWithTryingAll compares the set, which looks prefixes and
// suffixes up, with a list of regular expressions, in both orders.
func TestFindAgreesWithTryingAll(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	word := func(letters string, most int) string {
		var b strings.Builder
		for range random.IntN(most + 1) {
			b.WriteByte(letters[random.IntN(len(letters))])
		}
		return b.String()
	}
	for range 2000 {
		var patterns []*pattern
		var naive []*regexp.Regexp
		for range random.IntN(30) {
			patterns = append(patterns, newPattern(word("ab*", 4)+"*"+word("ab*", 1)))
		}
		if random.IntN(2) == 0 {
			slices.SortStableFunc(patterns, specific)
		}
		for _, p := range patterns {
			text := strings.ReplaceAll(regexp.QuoteMeta(p.text), `\*`, ".*")
			naive = append(naive, regexp.MustCompile("^"+text+"$"))
		}
		set := newPatternSet(patterns)
		for range 20 {
			value := word("ab", 6)
			want := slices.IndexFunc(naive, func(r *regexp.Regexp) bool { return r.MatchString(value) })
			got := -1
			if p := set.find([]byte(value)); p != nil {
				got = p.rank
			}
			if got != want {
				t.Fatalf("%q of %v: got %d, want %d", value, texts(patterns), got, want)
			}
		}
	}
}

func texts(patterns []*pattern) []string {
	var list []string
	for _, p := range patterns {
		list = append(list, p.text)
	}
	return list
}

// TestSpecificPatternsHideNothing checks that in the precise order no pattern
// goes before one that it covers, but for two that match the same values.
func TestSpecificPatternsHideNothing(t *testing.T) {
	var patterns []*pattern
	var grow func(text string)
	grow = func(text string) {
		if strings.Contains(text, "*") && !strings.Contains(text, "**") {
			patterns = append(patterns, newPattern(text))
		}
		if len(text) < 5 {
			for _, c := range []string{"a", "b", "*"} {
				grow(text + c)
			}
		}
	}
	grow("")
	slices.SortStableFunc(patterns, specific)
	for i, p := range patterns {
		for _, hidden := range patterns[i+1:] {
			if p.match([]byte(hidden.text)) {
				t.Errorf("%q goes before %q and covers it", p.text, hidden.text)
			}
		}
	}
}

// TestPrecedenceAgreesWithANaiveTwin matches random trees against a list of
// rules that is searched from top to bottom.
func TestPrecedenceAgreesWithANaiveTwin(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	pick := func(list ...string) string { return list[random.IntN(len(list))] }
	values := []string{"", "x", "xy", "xyz", "x*", "*y", "*z*", "xy*", "*"}
	for range 500 {
		var branches []*branch
		for range random.IntN(8) {
			branches = append(branches, &branch{entry: PathEntry{Key: pick("k", "l"), Value: pick(values...)}})
		}
		for _, counting := range []algorithm.Counting{algorithm.Precise, algorithm.Reference} {
			tree := buildFamily(branches, counting)
			for range 10 {
				key, value := pick("k", "l", "m"), pick("", "x", "xy", "xyz", "zy", "q", "x*", "*")
				var got *branch
				if s := tree[key]; s != nil {
					if n := s.find([]byte(value)); n != nil {
						got = branches[n.rule.Line]
					}
				}
				if want := naiveChoice(branches, counting, key, value); got != want {
					t.Fatalf("(%s, %s) counting %d of %v: got %v, want %v", key, value, counting, branchTexts(branches), got, want)
				}
			}
		}
	}
}

// buildFamily builds a level without checks; later twins are left out.
func buildFamily(branches []*branch, counting algorithm.Counting) level {
	families := make(map[string]*family)
	for i, br := range branches {
		f := families[br.entry.Key]
		if f == nil {
			f = &family{exact: make(map[string]*branch)}
			families[br.entry.Key] = f
		}
		if f.exact[br.entry.Value] == nil {
			f.exact[br.entry.Value] = br
			f.branches = append(f.branches, br)
			f.nodes = append(f.nodes, &node{rule: &Rule{Line: i}})
		}
	}
	l := make(level)
	for key, f := range families {
		l[key] = f.siblings(counting)
	}
	return l
}

func naiveChoice(branches []*branch, counting algorithm.Counting, key, value string) *branch {
	var best *branch
	var bestPattern *pattern
	for _, br := range branches {
		if br.entry.Key == key && br.entry.Value == value && value != "" {
			return br
		}
	}
	for _, br := range branches {
		if br.entry.Key != key || !strings.Contains(br.entry.Value, "*") {
			continue
		}
		p := newPattern(br.entry.Value)
		if !p.match([]byte(value)) {
			continue
		}
		if best == nil || counting == algorithm.Precise && specific(p, bestPattern) < 0 {
			best, bestPattern = br, p
		}
	}
	for _, br := range branches {
		if best == nil && br.entry.Key == key && br.entry.Value == "" {
			return br
		}
	}
	return best
}

func branchTexts(branches []*branch) []PathEntry {
	var list []PathEntry
	for _, br := range branches {
		list = append(list, br.entry)
	}
	return list
}

// TestHiddenPatternsAreFound compares the check for patterns that no value can
// choose with a comparison of each with all that go before it.
func TestHiddenPatternsAreFound(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 10))
	for range 2000 {
		var branches []*branch
		src := &source{file: "f", faults: &faults{}}
		for i := range random.IntN(12) {
			var b strings.Builder
			for range 1 + random.IntN(4) {
				b.WriteByte("aab**"[random.IntN(5)])
			}
			site := &yaml.Node{Line: i + 1}
			branches = append(branches, &branch{entry: PathEntry{Key: "k", Value: b.String()}, at: &value{src: src, node: site, site: site}})
		}
		for _, counting := range []algorithm.Counting{algorithm.Precise, algorithm.Reference} {
			src.faults = &faults{}
			f := &family{exact: make(map[string]*branch)}
			for _, br := range branches {
				if f.exact[br.entry.Value] == nil {
					f.add(br)
					f.nodes = append(f.nodes, &node{})
				}
			}
			f.checkReachable(f.siblings(counting), counting)
			for i, p := range f.patterns {
				hidden := slices.ContainsFunc(f.patterns[:i], func(q *pattern) bool { return q.match([]byte(p.text)) })
				reported := slices.ContainsFunc(src.faults.list.Errors, func(e *Error) bool { return e.Line == f.exact[p.text].at.site.Line })
				if hidden != reported {
					t.Fatalf("%v, counting %d: %q hidden %v, reported %v", texts(f.patterns), counting, p.text, hidden, reported)
				}
			}
		}
	}
}

// TestThousandsOfPatterns of one key, which cannot be looked up, load.
func TestThousandsOfPatterns(t *testing.T) {
	for _, counting := range []string{"precise", "reference"} {
		var text strings.Builder
		text.WriteString("domain: t\ncounting: " + counting + "\ndescriptors:\n")
		for i := range 20_000 {
			fmt.Fprintf(&text, "- {key: k, value: '*x%dx*'}\n", i)
		}
		if n := len(compile(t, text.String()).Domains()[0].Rules()); n != 20_000 {
			t.Errorf("%s: %d rules", counting, n)
		}
	}
}
