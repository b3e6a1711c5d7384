package service

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/ratelimitd/ratelimitd/pkg/descriptors"
)

// entries makes the entries of keys and values in turn.
func entries(words ...string) []descriptors.Entry {
	var list []descriptors.Entry
	for i := 0; i < len(words); i += 2 {
		list = append(list, descriptors.Entry{Key: []byte(words[i]), Value: []byte(words[i+1])})
	}
	return list
}

// encode writes a request as a client would, with any bytes in its strings.
func encode(r *Request) []byte {
	var b []byte
	b = appendBytes(b, 1, r.Domain)
	for i := range r.Descriptors {
		b = appendBytes(b, 2, encodeDescriptor(&r.Descriptors[i]))
	}
	if r.HitsAddend != 0 {
		b = appendVarint(b, 3, uint64(r.HitsAddend))
	}
	return b
}

func encodeDescriptor(d *Descriptor) []byte {
	var b []byte
	for _, e := range d.Entries {
		b = appendBytes(b, 1, appendBytes(appendBytes(nil, 1, e.Key), 2, e.Value))
	}
	if d.HasOverride {
		o := appendVarint(appendVarint(nil, 1, uint64(d.Override.Requests)), 2, uint64(d.Override.Unit))
		if d.Override.Multiplier != 0 {
			o = appendBytes(o, 3, appendVarint(nil, 1, uint64(d.Override.Multiplier)))
		}
		b = appendBytes(b, 2, o)
	}
	if d.HasHits {
		b = appendBytes(b, 3, appendVarint(nil, 1, d.Hits))
	}
	if d.IsNegative {
		b = appendVarint(b, 4, 1)
	}
	return b
}

func appendBytes(b []byte, n protowire.Number, v []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), v)
}

func appendVarint(b []byte, n protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), v)
}

// same reports whether two requests ask for the same.
func same(a, b *Request) bool {
	if !bytes.Equal(a.Domain, b.Domain) || a.HitsAddend != b.HitsAddend || len(a.Descriptors) != len(b.Descriptors) {
		return false
	}
	for i := range a.Descriptors {
		d, e := &a.Descriptors[i], &b.Descriptors[i]
		if d.HasOverride != e.HasOverride || d.Override != e.Override || d.HasHits != e.HasHits || d.Hits != e.Hits ||
			d.IsNegative != e.IsNegative || len(d.Entries) != len(e.Entries) {
			return false
		}
		for j := range d.Entries {
			if !bytes.Equal(d.Entries[j].Key, e.Entries[j].Key) || !bytes.Equal(d.Entries[j].Value, e.Entries[j].Value) {
				return false
			}
		}
	}
	return true
}

var everything = Request{
	Domain:     []byte("edge"),
	HitsAddend: 7,
	Descriptors: []Descriptor{
		{Entries: entries("plan", "free", "user", "alice")},
		{Entries: entries("user", "u1\xff\x00"), HasHits: true},
		{Entries: entries("empty", ""), HasOverride: true, Override: descriptors.Override{Requests: 5, Unit: 4, Multiplier: 3}},
		{HasHits: true, Hits: 1<<64 - 1, IsNegative: true},
	},
}

func TestDecodeEverything(t *testing.T) {
	wire := encode(&everything)
	var r Request
	for range 2 { // the second time into what the first left
		if err := r.Unmarshal(wire); err != nil {
			t.Fatal(err)
		}
		if !same(&r, &everything) {
			t.Errorf("got %+v", r)
		}
	}
}

func TestDecodeMergesAsProtobufDoes(t *testing.T) {
	descriptor := encodeDescriptor(&Descriptor{HasOverride: true, Override: descriptors.Override{Requests: 5, Unit: 4, Multiplier: 3}})
	descriptor = appendBytes(descriptor, 2, appendVarint(nil, 1, 6)) // only requests_per_unit
	descriptor = appendBytes(descriptor, 3, appendVarint(nil, 1, 8))
	descriptor = appendBytes(descriptor, 3, nil)
	descriptor = appendVarint(appendVarint(descriptor, 4, 1), 4, 0)
	wire := appendBytes(appendBytes(nil, 1, []byte("first")), 1, []byte("last"))
	wire = appendVarint(appendBytes(wire, 2, descriptor), 99, 1)
	wire = appendVarint(appendBytes(wire, 3, []byte("of another type")), 3, 1<<32+9)
	want := Request{Domain: []byte("last"), HitsAddend: 9, Descriptors: []Descriptor{
		{HasOverride: true, Override: descriptors.Override{Requests: 6, Unit: 4, Multiplier: 3}, HasHits: true, Hits: 8},
	}}
	var r Request
	if err := r.Unmarshal(wire); err != nil || !same(&r, &want) {
		t.Errorf("got %+v, %v", r, err)
	}
}

func TestMalformedRequest(t *testing.T) {
	for name, wire := range map[string][]byte{
		"tag cut":         {0x80},
		"field number 0":  {0x00, 0x00},
		"length too long": {0x0a, 0x05, 'a'},
		"varint too long": append([]byte{0x18}, bytes.Repeat([]byte{0xff}, 11)...),
		"inner cut":       {0x12, 0x02, 0x0a, 0x05},
		"stray end group": {0x0c},
	} {
		var r Request
		var failure *Error
		if err := r.Unmarshal(wire); !errors.As(err, &failure) || failure.Kind != InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
		if err := r.check(); err == nil || err.Kind != InvalidArgument {
			t.Errorf("%s: checked as %v", name, err)
		}
	}
}

// Two bytes on the wire are a descriptor: memory must not grow with them.
func TestDecodeBoundsMemory(t *testing.T) {
	var r Request
	many := appendBytes(nil, 1, []byte("d"))
	for range maxStoredDescriptors + 5 {
		many = append(many, 0x12, 0x00)
	}
	if err := r.Unmarshal(many); err != nil || len(r.Descriptors) != maxStoredDescriptors || !r.excess {
		t.Errorf("%d descriptors, excess %v, %v", len(r.Descriptors), r.excess, err)
	}
	full := bytes.Repeat([]byte{0x0a, 0x00}, maxStoredEntries+5)
	if err := r.Unmarshal(appendBytes(nil, 2, full)); err != nil || len(r.entries) != maxStoredEntries || !r.excess {
		t.Errorf("%d entries, excess %v, %v", len(r.entries), r.excess, err)
	}
	if !r.large() {
		t.Error("would be kept for reuse")
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(encode(&everything))
	f.Add([]byte{0x12, 0x02, 0x0a, 0x00})
	f.Add([]byte{0x0b, 0x12, 0x00, 0x0c}) // a group in the place of a string
	f.Fuzz(func(t *testing.T, wire []byte) {
		var r Request
		err := r.Unmarshal(wire)
		var m rlsv3.RateLimitRequest
		wanted := proto.Unmarshal(wire, &m)
		if wanted != nil && strings.Contains(wanted.Error(), "UTF-8") {
			return // this is what the decoder is for
		}
		if (err == nil) != (wanted == nil) {
			t.Fatalf("got %v, protobuf says %v", err, wanted)
		}
		if err == nil && !same(&r, RequestFromProto(&m)) {
			t.Fatalf("got %+v, want %v", r, &m)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	wire := encode(&everything)
	b.Run("this", func(b *testing.B) {
		b.ReportAllocs()
		var r Request
		for b.Loop() {
			if err := r.Unmarshal(wire); err != nil {
				b.Fatal(err)
			}
		}
	})
	valid := bytes.ReplaceAll(wire, []byte("u1\xff"), []byte("u1x"))
	b.Run("protobuf", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := proto.Unmarshal(valid, new(rlsv3.RateLimitRequest)); err != nil {
				b.Fatal(err)
			}
		}
	})
}
