package config

import (
	"regexp"
	"strings"
	"testing"

	"github.com/ratelimitd/ratelimitd/pkg/descriptors"
)

// A comment of a sample that shows a descriptor: "#   plan=free, tenant=acme".
var shown = regexp.MustCompile(`^\s*#   ([^\s,]+=[^\s,]+(?:, [^\s,]+=[^\s,]+)*)`)

// TestCommentsAreTrue matches the descriptors that the comments show: each has
// the rule that stands below it, and each rule that says something is shown.
func TestCommentsAreTrue(t *testing.T) {
	files, rules := load(t)
	seen := map[*descriptors.Rule]bool{}
	for _, file := range files {
		lines := strings.Split(string(file.Text), "\n")
		domain := ""
		for i, line := range lines {
			if name, found := strings.CutPrefix(line, "domain: "); found {
				domain = name
			}
			comment := shown.FindStringSubmatch(line)
			if comment == nil {
				continue
			}
			rule := match(t, rules, domain, comment[1])
			if rule == nil || rule.File != file.Name || !below(lines, i, rule.Line-1) {
				t.Errorf("%s:%d: %s has the rule %+v, not the one below", file.Name, i+1, comment[1], rule)
			}
			seen[rule] = true
		}
	}
	for _, domain := range rules.Domains() {
		for _, rule := range domain.Rules() {
			if (len(rule.Limits) > 0 || rule.Unlimited) && !seen[rule] {
				t.Errorf("%s:%d: no comment shows a descriptor of this rule", rule.File, rule.Line)
			}
		}
	}
}

// below reports whether a rule in one line belongs to the first descriptor of
// the list that follows a comment in another.
func below(lines []string, comment, rule int) bool {
	begins := 0
	for i := comment; i <= rule; i++ {
		if strings.HasPrefix(lines[i], "  - key:") {
			begins++
		}
	}
	return begins == 1
}

// TestHeadsSayWhatFor wants a few lines at the top of each sample, and not more
// than a reader takes in.
func TestHeadsSayWhatFor(t *testing.T) {
	files, _ := load(t)
	for _, file := range files {
		head := 0
		for line := range strings.Lines(string(file.Text)) {
			if !strings.HasPrefix(line, "#") {
				break
			}
			head++
			if len([]rune(strings.TrimSpace(line))) > 128 {
				t.Errorf("%s:%d is longer than 128 columns", file.Name, head)
			}
		}
		if head < 3 || head > 16 {
			t.Errorf("%s begins with %d lines of comment", file.Name, head)
		}
	}
}
