package descriptors

import (
	"encoding/base64"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/ratelimitd/ratelimitd/internal/spelling"
)

// text reads a string. Plain scalars keep their spelling: 007, yes and
// 2030-01-01 are text where text is wanted, as in envoyproxy/ratelimit. A
// number with a fraction is not, because 1.10 is probably meant as text and
// 1e3 as a number. Empty is as absent.
func (v *value) text() (string, bool) {
	if v.node.Kind != yaml.ScalarNode {
		v.errorf("must be a text, not %s", v.what())
		return "", false
	}
	switch tag := v.node.ShortTag(); tag {
	case strTag, intTag, boolTag, timestampTag, mergeTag:
		return v.node.Value, true
	case nullTag:
		return "", true
	case floatTag:
		v.errorf("must be a text, not the number %s; in quotes it is one: %q", shorten(v.node.Value), shorten(v.node.Value))
	case binaryTag:
		return v.binary()
	default:
		v.errorf("has the tag %s, which policies do not have", quote(tag))
	}
	return "", false
}

// binary reads a text of raw bytes.
func (v *value) binary() (string, bool) {
	compact := strings.Join(strings.Fields(v.node.Value), "")
	raw, err := base64.StdEncoding.DecodeString(compact)
	if err != nil {
		v.errorf("!!binary must be base64: %v", err)
		return "", false
	}
	return string(raw), true
}

// The booleans of YAML 1.1, which the core schema of YAML 1.2 takes for text.
var (
	yamlTrue  = []string{"true", "True", "TRUE", "yes", "Yes", "YES", "y", "Y", "on", "On", "ON"}
	yamlFalse = []string{"false", "False", "FALSE", "no", "No", "NO", "n", "N", "off", "Off", "OFF"}
)

// plainBool reads an unquoted boolean of YAML 1.1; ok is false if the node is
// none.
func plainBool(node *yaml.Node) (value, ok bool) {
	const quoted = yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle | yaml.TaggedStyle
	if node.Kind != yaml.ScalarNode || node.Style&quoted != 0 && node.ShortTag() != boolTag {
		return false, false
	}
	value = slices.Contains(yamlTrue, node.Value)
	return value, value || slices.Contains(yamlFalse, node.Value)
}

// boolean reads true or false. Empty is false.
func (v *value) boolean() (bool, bool) {
	if v.isNull() {
		return false, true
	}
	b, ok := plainBool(v.node)
	if !ok {
		v.errorf("must be %s%s, not %s", switches, v.unquoted(), v.what())
	}
	return b, ok
}

// whole reads a whole number from least to most.
func (v *value) whole(least, most uint64) (uint64, bool) {
	if v.node.Kind != yaml.ScalarNode || v.node.ShortTag() != intTag {
		v.errorf("must be %s%s, not %s", wholeNumbers(least, most), v.unquoted(), v.what())
		return 0, false
	}
	var decoded any
	if err := v.node.Decode(&decoded); err != nil {
		v.errorf("must be %s, not %s", wholeNumbers(least, most), v.what())
		return 0, false
	}
	n, ok := unsigned(decoded)
	if !ok || n < least || n > most {
		v.errorf("%s does not fit; %s is allowed", shorten(v.node.Value), wholeNumbers(least, most))
		return 0, false
	}
	return n, true
}

// unsigned takes what YAML makes of a whole number.
func unsigned(decoded any) (uint64, bool) {
	switch n := decoded.(type) {
	case int:
		return uint64(n), n >= 0
	case int64:
		return uint64(n), n >= 0
	case uint64:
		return n, true
	}
	return 0, false
}

// unquoted reminds of the quotes where a text was read in place of a number
// or a boolean.
func (v *value) unquoted() string {
	if v.node.Kind == yaml.ScalarNode && v.node.ShortTag() == strTag && v.node.Style != 0 {
		return " without quotes"
	}
	return ""
}

// word reads one of the allowed words.
func (v *value) word(what string, allowed []string) (string, bool) {
	text, ok := v.text()
	return v.choose(what, text, text, allowed, ok)
}

// anyCase reads one of the allowed words in capitals or not.
func (v *value) anyCase(what string, allowed []string) (string, bool) {
	text, ok := v.text()
	return v.choose(what, text, strings.ToLower(text), allowed, ok)
}

func (v *value) choose(what, text, word string, allowed []string, ok bool) (string, bool) {
	if !ok || slices.Contains(allowed, word) {
		return word, ok
	}
	near := ""
	if word := spelling.Nearest(strings.ToLower(text), allowed); word != "" {
		near = "; did you mean " + quote(word) + "?"
	}
	v.errorf("%s is not %s; %s%s", quote(text), what, oneOf(allowed), near)
	return "", false
}
