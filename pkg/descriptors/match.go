package descriptors

// level holds the nodes below another, by key.
type level map[string]*siblings

// siblings are the nodes of a level that have one key.
type siblings struct {
	exact    map[string]*node // by value; a pattern is also found by its own text
	patterns patternSet
	any      *node // without a value
}

// node is a descriptor of a policy file.
type node struct {
	rule *Rule
	next level
}

// Match returns the rule of a descriptor, nil if it has none. It does not
// allocate.
func (d *Domain) Match(entries []Entry) *Rule {
	next := d.root
	var n *node
	for i := range entries {
		s := next[string(entries[i].Key)]
		if s == nil {
			return nil
		}
		if n = s.find(entries[i].Value); n == nil {
			return nil
		}
		next = n.next
	}
	if n == nil {
		return nil
	}
	return n.rule
}

// find chooses the node for a value, nil if there is none.
func (s *siblings) find(value []byte) *node {
	if n := s.exact[string(value)]; n != nil {
		return n
	}
	if p := s.patterns.find(value); p != nil {
		return p.node
	}
	return s.any
}
