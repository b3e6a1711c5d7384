package statsd

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Mogrifier gives metrics another name, and tags, for dogstatsd. In both $0 is
// what the pattern matches, and $1, $2 … its groups; a number that it has no group
// for stays as it is.
type Mogrifier struct {
	pattern *regexp.Regexp
	name    string
	tags    [][2]string
}

// NewMogrifier checks a mogrifier: none of its parts may be empty, except that
// there may be no tags.
func NewMogrifier(pattern, name string, tags map[string]string) (Mogrifier, error) {
	m := Mogrifier{name: name}
	if pattern == "" || name == "" {
		return m, fmt.Errorf("a mogrifier needs a pattern and a name; they are %q and %q", pattern, name)
	}
	var err error
	if m.pattern, err = regexp.Compile(pattern); err != nil {
		return m, err
	}
	for _, tag := range slices.Sorted(maps.Keys(tags)) {
		if tag == "" || tags[tag] == "" {
			return m, fmt.Errorf("a tag needs a name and a value; they are %q and %q", tag, tags[tag])
		}
		m.tags = append(m.tags, [2]string{tag, tags[tag]})
	}
	return m, nil
}

// mogrify returns the name of a metric and its tags by the first mogrifier whose
// pattern matches, else as they were. A name that would be empty stays, too, and
// one cannot hold what ends a name.
func mogrify(all []Mogrifier, name string) (string, map[string]string) {
	for _, m := range all {
		groups := m.pattern.FindStringSubmatch(name)
		if groups == nil {
			continue
		}
		tags := make(map[string]string, len(m.tags))
		for _, tag := range m.tags {
			tags[tag[0]] = expand(tag[1], groups)
		}
		if renamed := clean(expand(m.name, groups)); renamed != "" {
			name = renamed
		}
		return name, tags
	}
	return name, nil
}

// group is a reference to one.
var group = regexp.MustCompile(`\$\d+`)

func expand(text string, groups []string) string {
	return group.ReplaceAllStringFunc(text, func(reference string) string {
		n, err := strconv.Atoi(strings.TrimPrefix(reference, "$"))
		if err != nil || n >= len(groups) {
			return reference
		}
		return groups[n]
	})
}
