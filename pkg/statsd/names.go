package statsd

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/ratelimitd/ratelimitd/pkg/descriptors"
)

// longestName is the longest name of counters, in bytes, that may have values
// of requests in it.
const longestName = 512

// pattern is how the name of a limit's counters is made: from the policy, with
// the values of requests where the policy asks for them. For a limit that a
// request brought there is no path, and all of the request's keys and values
// are in the name.
type pattern struct {
	domain   string
	path     []descriptors.PathEntry
	detailed bool
	tail     string // tells the limits of one rule apart
	written  string // the name as the policy alone has it
}

// patternOf returns the pattern of a limit.
func patternOf(l *descriptors.Limit) pattern {
	return pattern{
		domain: l.Rule.Domain.Name, path: l.Rule.Path, detailed: l.Rule.DetailedMetric,
		tail: l.Tail(), written: l.FullKey(),
	}
}

// isFixed reports whether the name has no values of requests in it.
func (p *pattern) isFixed() bool {
	if p.path == nil || p.detailed {
		return false
	}
	for i := range p.path {
		if shows(&p.path[i]) {
			return false
		}
	}
	return true
}

// shows reports whether a level shows the request's value in place of the
// policy's.
func shows(e *descriptors.PathEntry) bool {
	return e.ValueToMetric && !e.Share && (e.Value == "" || strings.Contains(e.Value, "*"))
}

// append appends the name for the entries of a request that the rule was matched
// with.
func (p *pattern) append(dst []byte, entries []descriptors.Entry) []byte {
	dst = append(dst, p.domain...)
	shared := p.isShared()
	for i := range entries {
		dst = append(append(dst, '.'), entries[i].Key...)
		value := entries[i].Value
		if i >= len(p.path) {
			if len(value) > 0 {
				dst = append(append(dst, '_'), value...)
			}
			continue
		}
		e := &p.path[i]
		switch {
		case e.Share:
			dst = append(append(dst, '_'), e.Value...)
		case p.detailed && (len(value) > 0 || !shared), shows(e) && len(value) > 0:
			dst = append(append(dst, '_'), value...)
		case e.Value != "" && !p.detailed && !shows(e):
			dst = append(append(dst, '_'), e.Value...)
		}
	}
	return append(dst, p.tail...)
}

// isShared reports whether a level shares a counter.
func (p *pattern) isShared() bool {
	for i := range p.path {
		if p.path[i].Share {
			return true
		}
	}
	return false
}

// overflow is the name for all requests whose own would be one too many.
func (p *pattern) overflow() string {
	if p.path == nil {
		return p.domain + ".overflow"
	}
	return p.written + "_overflow"
}

// address looks like one of IPv4. Its dots would be levels of a name.
var address = regexp.MustCompile(`\d+\.\d+\.\d+\.\d+`)

// clean makes a name safe to stand in a line: what separates the parts of a line,
// and what is not printable, is an underscore, and so are the dots of addresses.
func clean(name string) string {
	name = strings.Map(func(r rune) rune {
		if r == ':' || r == '|' || r == utf8.RuneError || !unicode.IsPrint(r) {
			return '_'
		}
		return r
	}, name)
	return address.ReplaceAllStringFunc(name, func(dotted string) string { return strings.ReplaceAll(dotted, ".", "_") })
}
