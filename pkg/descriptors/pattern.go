package descriptors

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
)

// pattern is a value with at least one *. Each stands for any bytes, also
// none: the value begins with prefix, ends with suffix, and the parts of the
// middle follow one another in between.
type pattern struct {
	text           string
	prefix, suffix string
	middle         [][]byte
	literals       int // bytes beside the *

	rank int // in its set; lower goes first
	node *node
}

func newPattern(text string) *pattern {
	parts := strings.Split(text, "*")
	p := &pattern{
		text:     text,
		prefix:   parts[0],
		suffix:   parts[len(parts)-1],
		literals: len(text) - (len(parts) - 1),
	}
	for _, part := range parts[1 : len(parts)-1] {
		if part != "" {
			p.middle = append(p.middle, []byte(part))
		}
	}
	return p
}

// match reports whether the pattern matches the value. On the text of another
// pattern it reports whether it matches all that the other matches, because
// only a * can stand for a *.
func (p *pattern) match(value []byte) bool {
	if len(value) < p.literals ||
		string(value[:len(p.prefix)]) != p.prefix ||
		string(value[len(value)-len(p.suffix):]) != p.suffix {
		return false
	}
	value = value[len(p.prefix) : len(value)-len(p.suffix)]
	for _, part := range p.middle {
		i := bytes.Index(value, part)
		if i < 0 {
			return false
		}
		value = value[i+len(part):]
	}
	return true
}

// specific orders patterns, the more specific first. A pattern that matches
// all that another matches never goes before it.
func specific(a, b *pattern) int {
	return cmp.Or(
		cmp.Compare(b.literals, a.literals),
		cmp.Compare(len(b.prefix), len(a.prefix)),
		cmp.Compare(len(a.text), len(b.text)),
		cmp.Compare(a.text, b.text),
	)
}

// patternSet finds the first of many patterns that matches a value. Patterns
// with nothing but a prefix or a suffix are found by it; the others are tried
// one by one.
type patternSet struct {
	prefixes, suffixes affixes
	others             []*pattern // by rank
}

// affixes are patterns by their one part, and the lengths that occur.
type affixes struct {
	byText  map[string]*pattern
	lengths []int
}

// scanned is the number of patterns up to which trying all is fastest.
const scanned = 8

// newPatternSet ranks the patterns as they are listed.
func newPatternSet(patterns []*pattern) patternSet {
	var s patternSet
	for i, p := range patterns {
		p.rank = i
		switch {
		case len(patterns) <= scanned || p.middle != nil:
			s.others = append(s.others, p)
		case p.suffix == "":
			s.prefixes.add(p.prefix, p)
		case p.prefix == "":
			s.suffixes.add(p.suffix, p)
		default:
			s.others = append(s.others, p)
		}
	}
	return s
}

// add keeps the first pattern of a text.
func (a *affixes) add(text string, p *pattern) {
	if a.byText == nil {
		a.byText = make(map[string]*pattern)
	}
	if a.byText[text] == nil {
		a.byText[text] = p
	}
	if i, found := slices.BinarySearch(a.lengths, len(text)); !found {
		a.lengths = slices.Insert(a.lengths, i, len(text))
	}
}

// find returns the first pattern that matches the value, nil if none does.
func (s *patternSet) find(value []byte) *pattern {
	var best *pattern
	for _, n := range s.prefixes.lengths {
		if n > len(value) {
			break
		}
		best = first(best, s.prefixes.byText[string(value[:n])])
	}
	for _, n := range s.suffixes.lengths {
		if n > len(value) {
			break
		}
		best = first(best, s.suffixes.byText[string(value[len(value)-n:])])
	}
	for _, p := range s.others {
		if best != nil && best.rank < p.rank {
			break
		}
		if p.match(value) {
			return p
		}
	}
	return best
}

// first returns the pattern that goes first; either may be nil.
func first(a, b *pattern) *pattern {
	if a == nil || b != nil && b.rank < a.rank {
		return b
	}
	return a
}
