package service

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/ratelimitd/ratelimitd/pkg/descriptors"
)

// Unmarshal decodes a RateLimitRequest from its wire format. It copies wire,
// and replaces what r held.
//
// It does as the protobuf library does (unknown fields and known ones of
// another wire type are skipped, the last of a repeated scalar holds,
// embedded messages merge), except that strings may hold any bytes: Envoy
// sends header values as they are, and an error here would let the request
// through. The error of malformed input is an *Error.
func (r *Request) Unmarshal(wire []byte) error {
	r.Reset()
	r.wire = append(r.wire, wire...)
	return r.decode()
}

// decode decodes r.wire.
func (r *Request) decode() error {
	for b := r.wire; len(b) > 0; {
		f, rest, ok := nextField(b)
		if ok && f.isBytes(2) {
			ok = r.addDescriptor(f.bytes)
		}
		if !ok {
			r.malformed = &Error{Kind: InvalidArgument, Message: "malformed RateLimitRequest"}
			return r.malformed
		}
		switch {
		case f.isBytes(1):
			r.Domain = f.bytes
		case f.isVarint(3):
			r.HitsAddend = uint32(f.varint)
		}
		b = rest
	}
	// Only now, since entries may have moved while they were appended to.
	for i := range r.Descriptors {
		d := &r.Descriptors[i]
		d.Entries = r.entries[d.first:d.last:d.last]
	}
	return nil
}

func (r *Request) addDescriptor(b []byte) bool {
	d := Descriptor{first: len(r.entries)}
	for len(b) > 0 {
		f, rest, ok := nextField(b)
		if !ok {
			return false
		}
		switch {
		case f.isBytes(1):
			ok = r.addEntry(f.bytes)
		case f.isBytes(2):
			d.HasOverride = true
			ok = decodeOverride(&d.Override, f.bytes)
		case f.isBytes(3):
			d.HasHits = true
			ok = decodeWrapper(&d.Hits, f.bytes)
		case f.isVarint(4):
			d.IsNegative = f.varint != 0
		}
		if !ok {
			return false
		}
		b = rest
	}
	d.last = len(r.entries)
	if len(r.Descriptors) == maxStoredDescriptors {
		r.excess = true
		r.entries = r.entries[:d.first]
		return true
	}
	r.Descriptors = append(r.Descriptors, d)
	return true
}

func (r *Request) addEntry(b []byte) bool {
	var e descriptors.Entry
	for len(b) > 0 {
		f, rest, ok := nextField(b)
		if !ok {
			return false
		}
		switch {
		case f.isBytes(1):
			e.Key = f.bytes
		case f.isBytes(2):
			e.Value = f.bytes
		}
		b = rest
	}
	if len(r.entries) == maxStoredEntries {
		r.excess = true
		return true
	}
	r.entries = append(r.entries, e)
	return true
}

func decodeOverride(o *descriptors.Override, b []byte) bool {
	for len(b) > 0 {
		f, rest, ok := nextField(b)
		if !ok {
			return false
		}
		switch {
		case f.isVarint(1):
			o.Requests = uint32(f.varint)
		case f.isVarint(2):
			o.Unit = int32(f.varint)
		case f.isBytes(3):
			multiplier := uint64(o.Multiplier)
			ok = decodeWrapper(&multiplier, f.bytes)
			o.Multiplier = uint32(multiplier)
		}
		if !ok {
			return false
		}
		b = rest
	}
	return true
}

// decodeWrapper decodes a UInt32Value or UInt64Value into v.
func decodeWrapper(v *uint64, b []byte) bool {
	for len(b) > 0 {
		f, rest, ok := nextField(b)
		if !ok {
			return false
		}
		if f.isVarint(1) {
			*v = f.varint
		}
		b = rest
	}
	return true
}

// field is one field of a message on the wire, with its value if that is of a
// type used here.
type field struct {
	number protowire.Number
	kind   protowire.Type
	varint uint64
	bytes  []byte
}

func (f *field) isBytes(n protowire.Number) bool {
	return f.number == n && f.kind == protowire.BytesType
}

func (f *field) isVarint(n protowire.Number) bool {
	return f.number == n && f.kind == protowire.VarintType
}

// nextField splits the first field off a message that is not empty. It
// reports false if the message is malformed.
func nextField(b []byte) (f field, rest []byte, ok bool) {
	number, kind, n := protowire.ConsumeTag(b)
	if n < 0 || number > protowire.MaxValidNumber {
		return f, nil, false
	}
	f.number, f.kind, b = number, kind, b[n:]
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
