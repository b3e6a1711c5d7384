package service

import (
	"google.golang.org/protobuf/encoding/protowire"
)

// begin begins a string or an embedded message: its tag and room for a length.
// What is then appended is its content, until [end], which takes the mark.
func begin(b []byte, n protowire.Number) (_ []byte, mark int) {
	b = append(b, byte(n)<<3|byte(protowire.BytesType), 0)
	return b, len(b)
}

// end writes the length of what was appended since the mark in front of it.
func end(b []byte, mark int) []byte {
	length := len(b) - mark
	if length < 0x80 {
		b[mark-1] = byte(length)
		return b
	}
	more := protowire.SizeVarint(uint64(length)) - 1
	var room [9]byte
	b = append(b, room[:more]...)
	copy(b[mark+more:], b[mark:mark+length])
	protowire.AppendVarint(b[:mark-1], uint64(length))
	return b
}

// appendInt appends an integer or a code, unless it is 0, which is the same as
// none.
func appendInt(b []byte, n protowire.Number, v uint64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendVarint(append(b, byte(n)<<3|byte(protowire.VarintType)), v)
}

// appendText appends a string, empty or not.
func appendText[T string | []byte](b []byte, n protowire.Number, s T) []byte {
	b = append(b, byte(n)<<3|byte(protowire.BytesType))
	return append(protowire.AppendVarint(b, uint64(len(s))), s...)
}
