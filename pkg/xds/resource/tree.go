package resource

import "go.yaml.in/yaml/v3"

// mapping is a mapping that is being written.
type mapping struct {
	node   *yaml.Node
	values map[string]int // where the value of each field is in the node
}

func newMapping() *mapping {
	return &mapping{node: &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}, values: make(map[string]int)}
}

// set gives a field its value, in place of one that it has.
func (m *mapping) set(name string, value *yaml.Node) {
	if at, known := m.values[name]; known {
		m.node.Content[at] = value
		return
	}
	m.node.Content = append(m.node.Content, text(name), value)
	m.values[name] = len(m.node.Content) - 1
}

// flag sets a switch that is on.
func (m *mapping) flag(name string, on bool) {
	if on {
		m.set(name, scalar("!!bool", "true"))
	}
}

func list(items []*yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Content: items}
}

// text writes a text, which looks like no number or boolean, whatever it says.
func text(s string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Style: yaml.DoubleQuotedStyle, Value: s}
}

func scalar(tag, value string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: value}
}
