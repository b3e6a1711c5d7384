package service

import (
	"strings"
	"unicode/utf8"
)

// text returns b for people to read: bytes that are not UTF-8 as \xNN, and no
// more than maxMetadataText bytes of b.
func text(b []byte) string {
	cut := len(b) > maxMetadataText
	if cut {
		b = b[:maxMetadataText]
	}
	if utf8.Valid(b) && !cut {
		return string(b)
	}
	var s strings.Builder
	for len(b) > 0 {
		r, size := utf8.DecodeRune(b)
		if r == utf8.RuneError && size == 1 {
			s.WriteString(`\x` + string("0123456789abcdef"[b[0]>>4]) + string("0123456789abcdef"[b[0]&15]))
		} else {
			s.Write(b[:size])
		}
		b = b[size:]
	}
	if cut {
		s.WriteString("…")
	}
	return s.String()
}
