package descriptors

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Tags of scalars and collections, as YAML's core schema resolves them.
const (
	nullTag      = "!!null"
	boolTag      = "!!bool"
	intTag       = "!!int"
	floatTag     = "!!float"
	strTag       = "!!str"
	binaryTag    = "!!binary"
	timestampTag = "!!timestamp"
	mergeTag     = "!!merge"
)

// maxDepth bounds how deep values nest, and with it a value that holds itself
// by an alias. 64 levels of descriptors fit.
const maxDepth = 140

// value is a node of a document, where it stands, and the way to it. Every
// method that finds a fault records it and reports false.
type value struct {
	src  *source
	node *yaml.Node // what the value is; never an alias
	site *yaml.Node // where it is used: the alias, or the node itself

	parent *value
	name   string // of the field
	index  int    // of the element of a list; -1 for a field
	depth  int

	// flawed is set when a mapping has a field that it cannot have, which may
	// be meant for one that is missing.
	flawed bool
}

func newRoot(src *source, node *yaml.Node) *value {
	v := &value{src: src, node: node, site: node}
	v.resolve()
	return v
}

// child is a value below v. It reports false when the file has used up what
// it may expand to.
func (v *value) child(node *yaml.Node, name string, index int) (*value, bool) {
	c := &value{src: v.src, node: node, site: node, parent: v, name: name, index: index, depth: v.depth + 1}
	c.resolve()
	if c.depth > maxDepth {
		v.errorf("nested too deep")
		return nil, false
	}
	return c, v.src.spend(1, v)
}

// resolve follows an alias. An alias of an alias does not exist.
func (v *value) resolve() {
	if v.node.Kind == yaml.AliasNode {
		v.node = v.node.Alias
	}
}

// path is the way to the value, as in descriptors[0].rate_limit. The middle of
// a very long one is left out.
func (v *value) path() string {
	const most = 400
	path := v.wholePath()
	if len(path) > most {
		path = path[:most/2] + "…" + path[len(path)-most/2:]
	}
	return strings.ToValidUTF8(path, "")
}

func (v *value) wholePath() string {
	if v.parent == nil {
		return ""
	}
	above := v.parent.wholePath()
	if v.index >= 0 {
		return above + "[" + strconv.Itoa(v.index) + "]"
	}
	name := v.name
	if strings.Trim(name, fieldLetters) != "" || name == "" {
		name = quote(name)
	}
	if above == "" {
		return name
	}
	return above + "." + name
}

// fieldLetters are those of a name that a path shows as it is.
const fieldLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"

// errorf records a fault of the value.
func (v *value) errorf(format string, args ...any) {
	v.src.add(v.node, v.path(), format, args...)
}

// lapse records a fault of the value, or a warning where the file is taken
// leniently.
func (v *value) lapse(format string, args ...any) {
	v.src.lapse(v.node, v.path(), format, args...)
}

// missing records that a field is not there, unless the mapping is flawed and
// the field may be there under another name.
func (v *value) missing(format string, args ...any) {
	if !v.flawed {
		v.errorf(format, args...)
	}
}

// place is where the value is used, for an error about another one.
func (v *value) place() string {
	e := Error{File: v.src.file, Line: v.site.Line, Column: v.site.Column}
	if e.Line == 0 {
		return e.File + ": " + v.path()
	}
	return e.place()
}

// isNull reports whether the value is written but empty, which is as if it
// were not written.
func (v *value) isNull() bool {
	return v.node.Kind == yaml.ScalarNode && v.node.ShortTag() == nullTag
}

// items returns the elements of a list.
func (v *value) items() ([]*value, bool) {
	if v.node.Kind != yaml.SequenceNode {
		v.errorf("must be a list, not %s", v.what())
		return nil, false
	}
	items := make([]*value, 0, len(v.node.Content))
	for i, node := range v.node.Content {
		item, ok := v.child(node, "", i)
		if !ok {
			return nil, false
		}
		items = append(items, item)
	}
	return items, true
}

// what describes the value for an error.
func (v *value) what() string {
	switch v.node.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	switch v.node.ShortTag() {
	case nullTag:
		return "an empty value"
	case boolTag, intTag, floatTag:
		return shorten(v.node.Value)
	}
	return "the text " + quote(v.node.Value)
}

// quote makes a text from a file fit for a log line: short, and printable.
func quote(text string) string { return strconv.Quote(shorten(text)) }

func shorten(text string) string {
	const longest = 80
	if len(text) <= longest {
		return text
	}
	return strings.ToValidUTF8(text[:longest], "") + "…"
}
