package descriptors

import (
	"slices"
	"strconv"
	"strings"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

func compareNames(a, b *Domain) int { return strings.Compare(a.Name, b.Name) }

// builder makes the tree of a domain out of its branches.
type builder struct {
	domain *Domain
	rules  *Rules
	ids    map[string]int // of all limits; the value is the last number that made a like one unique
}

func (b *builder) build(d *draft) {
	domain := b.domain
	domain.head = appendNetstring(nil, domain.Name)
	domain.override = &Rule{Domain: domain}
	domain.overrideID = cut(label(domain.Name, nil), longestID-len(" override")) + " override"
	domain.root = b.level(d.branches)
}

// level makes a level of the tree and all below it.
func (b *builder) level(branches []*branch) level {
	if len(branches) == 0 {
		return nil
	}
	keys := make(map[string]*family)
	for _, br := range branches {
		f := keys[br.entry.Key]
		if f == nil {
			f = &family{exact: make(map[string]*branch)}
			keys[br.entry.Key] = f
		}
		b.addRule(br.rule)
		n := &node{rule: br.rule, next: b.level(br.children)}
		if f.add(br) {
			f.nodes = append(f.nodes, n)
		}
	}
	l := make(level, len(keys))
	for key, f := range keys {
		s := f.siblings(b.domain.Counting)
		f.checkReachable(s, b.domain.Counting)
		l[key] = s
	}
	return l
}

// addRule numbers the limits of a rule.
func (b *builder) addRule(r *Rule) {
	b.domain.rules = append(b.domain.rules, r)
	for i, l := range r.Limits {
		l.Index = len(b.rules.limits)
		b.rules.limits = append(b.rules.limits, l)
		l.ID = b.id(r, l)
		id := identity{rule: r, limit: l.Limit}
		if !l.shared {
			l.Region = b.domain.region
			id.region, id.regional = l.Region, l.Region != ""
		}
		for j, other := range r.Limits {
			if i != j && sameWindow(l.Limit, other.Limit) {
				id.name = l.Name
				id.regional = id.regional || other.shared && !l.shared
			}
		}
		l.suffix = id.suffix()
	}
}

// longestID bounds the labels of metrics.
const longestID = 200

// id labels a limit. Two rules may look alike, as (a, b/c) and (a, b)(c): then
// the later one gets a number.
func (b *builder) id(r *Rule, l *Limit) string {
	id := label(r.Domain.Name, r.Path)
	if len(r.Limits) > 1 {
		id += " " + limitLabel(l)
	}
	id = cut(id, longestID)
	unique := id
	for n := b.ids[id] + 1; b.ids[unique] > 0; n++ {
		suffix := " #" + strconv.Itoa(n)
		unique = cut(id, longestID-len(suffix)) + suffix
		b.ids[id] = n // thousands may look alike: none tries the numbers of those before it
	}
	b.ids[unique] = 1
	return unique
}

// limitLabel tells the limits of one rule apart.
func limitLabel(l *Limit) string {
	if l.Name != "" {
		return l.Name
	}
	text := l.Limit.Algorithm.Name + " " + l.Limit.Window.String()
	if c := l.Limit.Calendar; c != nil {
		text += " calendar"
	}
	if l.shared {
		text += " shared"
	}
	return text
}

// label is domain/key=value/key, printable.
func label(domain string, path []PathEntry) string {
	var b strings.Builder
	b.WriteString(printable(domain))
	for _, e := range path {
		b.WriteByte('/')
		b.WriteString(printable(e.Key))
		if e.Value != "" {
			b.WriteByte('=')
			b.WriteString(printable(e.Value))
		}
	}
	return b.String()
}

// printable escapes what is neither printable nor UTF-8.
func printable(text string) string {
	quoted := strconv.Quote(text)
	if quoted[1:len(quoted)-1] == text {
		return text
	}
	quoted = strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
	return quoted
}

// cut shortens a text to at most n bytes, at the border of a character.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	const dots = "…"
	n -= len(dots)
	for n > 0 && text[n]&0xc0 == 0x80 {
		n--
	}
	return text[:n] + dots
}

// family is the branches of a level that have one key.
type family struct {
	exact    map[string]*branch // by value as written
	branches []*branch
	nodes    []*node    // of the branches
	patterns []*pattern // by rank
}

// add reports false for a branch whose key and value another one has.
func (f *family) add(br *branch) bool {
	if other := f.exact[br.entry.Value]; other != nil {
		what := "key " + quote(br.entry.Key)
		if br.entry.Value != "" {
			what += " and value " + quote(br.entry.Value)
		}
		br.at.src.add(br.at.site, br.at.path(), "a descriptor with %s stands already at %s; put both into one", what, other.at.place())
		return false
	}
	f.exact[br.entry.Value] = br
	f.branches = append(f.branches, br)
	return true
}

// siblings makes the family's part of a level.
func (f *family) siblings(counting algorithm.Counting) *siblings {
	s := &siblings{exact: make(map[string]*node, len(f.nodes))}
	var patterns []*pattern
	for i, br := range f.branches {
		value := br.entry.Value
		if value == "" {
			s.any = f.nodes[i]
			continue
		}
		s.exact[value] = f.nodes[i]
		if strings.Contains(value, "*") {
			p := newPattern(value)
			p.node = f.nodes[i]
			patterns = append(patterns, p)
		}
	}
	if counting == algorithm.Precise {
		slices.SortStableFunc(patterns, specific)
	}
	s.patterns = newPatternSet(patterns)
	f.patterns = patterns
	return s
}

// checkReachable reports branches that no value can choose. Where the specific
// go first, only a pattern that matches the same values can hide another one;
// else each has to be compared with those before it, which for thousands that
// begin alike stops after maxTries.
func (f *family) checkReachable(s *siblings, counting algorithm.Counting) {
	same := make(map[string]*pattern, len(f.patterns))
	tries := maxTries
	for _, p := range f.patterns {
		first := same[p.plain]
		if first == nil {
			first = p
			same[p.plain] = p
			text := []byte(p.text)
			if counting != algorithm.Precise && tries > 0 {
				tries -= s.patterns.candidates(text)
				first = s.patterns.find(text)
			}
		}
		if first != p {
			f.unreachable(p.text, first)
		}
		if p.plain == "*" {
			f.unreachable("", p)
		}
	}
}

// maxTries bounds the comparisons of one key's patterns to some tenths of a
// second.
const maxTries = 10_000_000

// unreachable reports that the branch with the value is hidden by a pattern.
func (f *family) unreachable(value string, by *pattern) {
	br, first := f.exact[value], f.exact[by.text]
	if br == nil || br.at.src.generated {
		return
	}
	what := "a descriptor without a value"
	if value != "" {
		what = quote(value)
	}
	br.at.src.lapse(br.at.site, br.at.path(), "unreachable: %s at %s matches all that %s matches, and goes first", quote(by.text), first.at.place(), what)
}
