package service

import (
	"strings"
)

// maxName is the number of bytes of a policy's name that clients are shown.
const maxName = 128

// quote writes a string of structured fields (RFC 9651): printable ASCII
// between quotation marks, with quotation marks and backslashes escaped. The
// result is a string of JSON as well. Other bytes, among them those that would
// split a response, are written as %XX, since Envoy sends headers as they are.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range min(len(s), maxName) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case printable(c):
			b.WriteByte(c)
		default:
			escapeByte(&b, c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// wireName makes a name safe for current_limit.name, which Envoy writes
// between quotation marks into x-ratelimit-limit without a look at it.
func wireName(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; printable(c) && c != '"' && c != '\\' {
			b.WriteByte(c)
		} else {
			escapeByte(&b, c)
		}
	}
	return b.String()
}

func printable(c byte) bool { return ' ' <= c && c <= '~' }

func escapeByte(b *strings.Builder, c byte) {
	const digits = "0123456789ABCDEF"
	b.Write([]byte{'%', digits[c>>4], digits[c&15]})
}
