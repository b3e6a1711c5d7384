package service

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/ratelimitd/ratelimitd/pkg/descriptors"
)

// maxStoredDescriptors and maxStoredEntries bound the memory that one request
// may take. A request with more is answered OVER_LIMIT.
const (
	maxStoredDescriptors = 1 << 16
	maxStoredEntries     = 1 << 18
)

// decode adds a request in wire format. Nothing is copied: what b holds of it
// are slices of the message.
//
// It does as the protobuf library does (unknown fields and known ones of
// another wire type are skipped, the last of a repeated scalar holds,
// embedded messages merge), except that strings may hold any bytes: Envoy
// sends header values as they are, and an error here would let the request
// through. A malformed one has no descriptors.
func (b *batch) decode(message []byte) *request {
	b.requests = append(b.requests, request{firstEntry: len(b.entries)})
	r := &b.requests[len(b.requests)-1]
	r.descriptors = span{len(b.descriptors), len(b.descriptors)}
	if !b.addFields(r, message) {
		r.malformed = true
		clear(b.entries[r.firstEntry:])
		clear(b.descriptors[r.descriptors.first:])
		b.descriptors, b.rules = b.descriptors[:r.descriptors.first], b.rules[:r.descriptors.first]
		b.entries = b.entries[:r.firstEntry]
	}
	r.descriptors.last = len(b.descriptors)
	return r
}

func (b *batch) addFields(r *request, message []byte) bool {
	for len(message) > 0 {
		f, rest, ok := nextField(message)
		if !ok {
			return false
		}
		switch f.tag {
		case bytesField(1):
			r.domain = f.bytes
		case bytesField(2):
			ok = b.addDescriptor(r, f.bytes)
		case varintField(3):
			r.hitsAddend = uint32(f.varint)
		}
		if !ok {
			return false
		}
		message = rest
	}
	return true
}

func (b *batch) addDescriptor(r *request, message []byte) bool {
	d := descriptor{entries: span{first: len(b.entries)}}
	for len(message) > 0 {
		f, rest, ok := nextField(message)
		if !ok {
			return false
		}
		switch f.tag {
		case bytesField(1):
			ok = b.addEntry(r, f.bytes)
		case bytesField(2):
			d.hasOverride = true
			ok = decodeOverride(&d.override, f.bytes)
		case bytesField(3):
			d.hasHits = true
			ok = decodeWrapper(&d.hits, f.bytes)
		case varintField(4):
			d.isNegative = f.varint != 0
		}
		if !ok {
			return false
		}
		message = rest
	}
	d.entries.last = len(b.entries)
	if len(b.descriptors)-r.descriptors.first == maxStoredDescriptors {
		r.excess = true
		b.entries = b.entries[:d.entries.first]
		return true
	}
	b.descriptors = append(b.descriptors, d)
	b.rules = append(b.rules, nil)
	return true
}

func (b *batch) addEntry(r *request, message []byte) bool {
	var e descriptors.Entry
	for len(message) > 0 {
		f, rest, ok := nextField(message)
		if !ok {
			return false
		}
		switch f.tag {
		case bytesField(1):
			e.Key = f.bytes
		case bytesField(2):
			e.Value = f.bytes
		}
		message = rest
	}
	if len(b.entries)-r.firstEntry == maxStoredEntries {
		r.excess = true
		return true
	}
	b.entries = append(b.entries, e)
	return true
}

func decodeOverride(o *descriptors.Override, message []byte) bool {
	for len(message) > 0 {
		f, rest, ok := nextField(message)
		if !ok {
			return false
		}
		switch f.tag {
		case varintField(1):
			o.Requests = uint32(f.varint)
		case varintField(2):
			o.Unit = int32(f.varint)
		case bytesField(3):
			multiplier := uint64(o.Multiplier)
			ok = decodeWrapper(&multiplier, f.bytes)
			o.Multiplier = uint32(multiplier)
		}
		if !ok {
			return false
		}
		message = rest
	}
	return true
}

// decodeWrapper decodes a UInt32Value or UInt64Value into v.
func decodeWrapper(v *uint64, message []byte) bool {
	for len(message) > 0 {
		f, rest, ok := nextField(message)
		if !ok {
			return false
		}
		if f.tag == varintField(1) {
			*v = f.varint
		}
		message = rest
	}
	return true
}

// field is one field of a message on the wire, with its value if that is of a
// type used here.
type field struct {
	tag    fieldTag
	varint uint64
	bytes  []byte
}

// fieldTag is the number and the type of a field, as on the wire.
type fieldTag uint64

// bytesField is the tag of a string or of an embedded message.
func bytesField(n protowire.Number) fieldTag {
	return fieldTag(n)<<3 | fieldTag(protowire.BytesType)
}

// varintField is the tag of an integer.
func varintField(n protowire.Number) fieldTag {
	return fieldTag(n)<<3 | fieldTag(protowire.VarintType)
}

// nextField splits the first field off a message that is not empty. It
// reports false if the message is malformed.
func nextField(b []byte) (f field, rest []byte, ok bool) {
	// Nearly every field has a number below 16 and fewer than 128 bytes.
	if len(b) > 1 && b[0] < 0x80 && b[0] >= 1<<3 && b[0]&7 == byte(protowire.BytesType) && b[1] < 0x80 {
		if end := 2 + int(b[1]); end <= len(b) {
			return field{tag: fieldTag(b[0]), bytes: b[2:end:end]}, b[end:], true
		}
		return f, nil, false
	}
	return anyField(b)
}

// anyField is nextField for fields of any kind and size.
func anyField(b []byte) (f field, rest []byte, ok bool) {
	number, kind, n := protowire.ConsumeTag(b)
	if n < 0 || number > protowire.MaxValidNumber {
		return f, nil, false
	}
	f.tag, b = fieldTag(protowire.EncodeTag(number, kind)), b[n:]
	switch kind {
	case protowire.VarintType:
		f.varint, n = protowire.ConsumeVarint(b)
	case protowire.BytesType:
		f.bytes, n = protowire.ConsumeBytes(b)
	default:
		n = protowire.ConsumeFieldValue(number, kind, b)
	}
	if n < 0 {
		return f, nil, false
	}
	return f, b[n:], true
}
