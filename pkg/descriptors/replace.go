package descriptors

import "slices"

// Replaced takes the rules that the descriptors of one request matched, nil
// where one matched none, and clears those of which another matched rule
// replaces every limit. Of a rule that keeps some of its limits it leaves a
// copy with these. Unlimited rules are never replaced; a replaced rule still
// replaces others; two rules that replace one another are both cleared.
//
// The rules must come from the same [Rules]. Nothing is allocated unless a
// rule keeps some of its limits, or hundreds of names are replaced in all
// files.
func Replaced(rules []*Rule) {
	var room [4]uint64
	names := room[:0]
	for _, r := range rules {
		if r != nil {
			names = addNames(names, r.replaces)
		}
	}
	if len(names) == 0 {
		return
	}
	for i, r := range rules {
		if r != nil {
			rules[i] = r.without(names)
		}
	}
}

// addNames sets the bits of the numbers.
func addNames(set []uint64, numbers []int) []uint64 {
	for _, n := range numbers {
		for len(set) <= n/64 {
			set = append(set, 0)
		}
		set[n/64] |= 1 << (n % 64)
	}
	return set
}

// without returns what is left of the rule when the names are replaced, nil
// for nothing.
func (r *Rule) without(names []uint64) *Rule {
	gone := 0
	for _, l := range r.Limits {
		if l.replacedBy(names) {
			gone++
		}
	}
	switch gone {
	case 0:
		return r
	case len(r.Limits):
		return nil
	}
	rest := *r
	rest.Limits = slices.DeleteFunc(slices.Clone(r.Limits), func(l *Limit) bool { return l.replacedBy(names) })
	return &rest
}

func (l *Limit) replacedBy(names []uint64) bool {
	n := l.replaced
	return n >= 0 && n/64 < len(names) && names[n/64]>>(n%64)&1 != 0
}
