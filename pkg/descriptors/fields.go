package descriptors

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// fields reads a mapping of the shape. Fields that are empty are left out.
func (v *value) fields(s *shape) (map[string]*value, bool) {
	all, ok := v.mapping()
	if !ok {
		return nil, false
	}
	known := make(map[string]*value, len(all))
	for _, f := range all {
		switch {
		case !s.has(f.name) && isReferenceField(f.name):
			v.flawed = !v.src.faults.lenient
			v.src.lapse(f.key, f.path(), "%s", s.unknown(f.name))
		case !s.has(f.name):
			v.flawed = true
			v.src.add(f.key, f.path(), "%s", s.unknown(f.name))
		case !f.isNull():
			known[f.name] = f.value
		}
	}
	return known, true
}

// unknown says what is wrong with a field that the shape does not have.
func (s *shape) unknown(name string) string {
	var homes []string
	for _, other := range shapes {
		if other.has(name) {
			homes = append(homes, other.name)
		}
	}
	if homes == nil {
		return fmt.Sprintf("unknown field %s%s", quote(name), didYouMean(name, s.names()))
	}
	return fmt.Sprintf("%q belongs in %s, not in %s; allowed here: %s", name, strings.Join(homes, " or "), s.name, strings.Join(s.names(), ", "))
}

// field is a value of a mapping with the node of its name.
type field struct {
	key *yaml.Node
	*value
}

// mapping reads any mapping. Its own fields go before those that << merges
// into it, and these before those of later mappings in a list of <<.
func (v *value) mapping() ([]field, bool) {
	if v.node.Kind != yaml.MappingNode {
		v.errorf("must be a mapping, not %s", v.what())
		return nil, false
	}
	m := merger{into: v, seen: make(map[string]int)}
	ok := m.add(v.node, 0)
	return m.fields, ok
}

// merger collects the fields of a mapping.
type merger struct {
	into   *value
	fields []field
	seen   map[string]int // line of each name
}

// maxMerges bounds how deep << may nest.
const maxMerges = 16

func (m *merger) add(mapping *yaml.Node, depth int) bool {
	own := make(map[string]bool)
	var merged []*yaml.Node
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		key, node := mapping.Content[i], mapping.Content[i+1]
		if key.Kind == yaml.AliasNode {
			key = key.Alias
		}
		switch {
		case key.Kind != yaml.ScalarNode:
			m.into.src.add(key, m.into.path(), "the name of a field must be a word, not a list or a mapping")
			return false
		case key.Tag == mergeTag:
			merged = append(merged, node)
			continue
		case own[key.Value]:
			m.into.src.lapse(key, m.into.path(), "field %s is given twice, first in line %d", quote(key.Value), m.seen[key.Value])
			if !m.into.src.faults.lenient {
				continue
			}
			m.remove(key.Value)
			delete(m.seen, key.Value)
		}
		own[key.Value] = true
		if _, shadowed := m.seen[key.Value]; shadowed {
			continue // << gives way to a field that is written out
		}
		m.seen[key.Value] = key.Line
		f, ok := m.into.child(node, key.Value, -1)
		if !ok {
			return false
		}
		m.fields = append(m.fields, field{key, f})
	}
	for _, node := range merged {
		if !m.merge(node, depth+1) {
			return false
		}
	}
	return true
}

// remove takes out a field, for one that is given twice.
func (m *merger) remove(name string) {
	m.fields = slices.DeleteFunc(m.fields, func(f field) bool { return f.name == name })
}

// merge adds what << names: a mapping, or a list of them.
func (m *merger) merge(node *yaml.Node, depth int) bool {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	switch {
	case depth > maxMerges:
		m.into.src.add(node, m.into.path(), "<< is nested too deep")
		return false
	case !m.into.src.spend(1+len(node.Content)/2, m.into):
		return false
	case node.Kind == yaml.MappingNode:
		return m.add(node, depth)
	case node.Kind == yaml.SequenceNode:
		for _, item := range node.Content {
			if !m.merge(item, depth+1) {
				return false
			}
		}
		return true
	}
	m.into.src.add(node, m.into.path(), "<< must name a mapping or a list of mappings")
	return false
}
