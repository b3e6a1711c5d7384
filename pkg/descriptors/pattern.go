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
	plain          string // text with one * where several follow each other: equal for those that match the same values
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
		plain:    plain(text),
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

// plain makes one * of several that follow each other.
func plain(text string) string {
	if !strings.Contains(text, "**") {
		return text
	}
	var b strings.Builder
	for i := range len(text) {
		if text[i] != '*' || i == 0 || text[i-1] != '*' {
			b.WriteByte(text[i])
		}
	}
	return b.String()
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
// all that another matches never goes before it, unless both match the same.
func specific(a, b *pattern) int {
	return cmp.Or(
		cmp.Compare(b.literals, a.literals),
		cmp.Compare(len(b.prefix), len(a.prefix)),
		cmp.Compare(len(a.plain), len(b.plain)),
		cmp.Compare(len(a.text), len(b.text)),
		cmp.Compare(a.text, b.text),
	)
}

// patternSet finds the first of many patterns that matches a value. Where there
// are more than a few, they are found by what they begin with, or else by what
// they end with; only those that have neither are all tried.
type patternSet struct {
	prefixes, suffixes affixes
	others             []*pattern // by rank
}

// affixes are patterns by their prefix or suffix, each list by rank, and the
// lengths of the texts that occur, the shortest first.
type affixes struct {
	byText  map[string][]*pattern
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
		case len(patterns) > scanned && p.prefix != "":
			s.prefixes.add(p.prefix, p)
		case len(patterns) > scanned && p.suffix != "":
			s.suffixes.add(p.suffix, p)
		default:
			s.others = append(s.others, p)
		}
	}
	return s
}

func (a *affixes) add(text string, p *pattern) {
	if a.byText == nil {
		a.byText = make(map[string][]*pattern)
	}
	a.byText[text] = append(a.byText[text], p)
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
		best = firstMatch(s.prefixes.byText[string(value[:n])], value, best)
	}
	for _, n := range s.suffixes.lengths {
		if n > len(value) {
			break
		}
		best = firstMatch(s.suffixes.byText[string(value[len(value)-n:])], value, best)
	}
	return firstMatch(s.others, value, best)
}

// candidates is how many patterns find may have to try for a value.
func (s *patternSet) candidates(value []byte) int {
	n := len(s.others)
	for _, length := range s.prefixes.lengths {
		if length <= len(value) {
			n += len(s.prefixes.byText[string(value[:length])])
		}
	}
	for _, length := range s.suffixes.lengths {
		if length <= len(value) {
			n += len(s.suffixes.byText[string(value[len(value)-length:])])
		}
	}
	return n
}

// firstMatch returns the first pattern that matches the value, of a list by
// rank and best, which is nil or matches.
func firstMatch(list []*pattern, value []byte, best *pattern) *pattern {
	for _, p := range list {
		if best != nil && best.rank < p.rank {
			break
		}
		if p.match(value) {
			return p
		}
	}
	return best
}
