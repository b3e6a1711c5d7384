package service

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

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

// anyRequest is a request with any bytes in its strings.
type anyRequest struct {
	Domain      []byte
	Descriptors []anyDescriptor
	HitsAddend  uint32
}

type anyDescriptor struct {
	Entries     []descriptors.Entry
	Override    descriptors.Override
	HasOverride bool
	Hits        uint64
	HasHits     bool
	IsNegative  bool
}

// fromProto returns the request that a decoded message stands for.
func fromProto(m *rlsv3.RateLimitRequest) *anyRequest {
	r := &anyRequest{Domain: []byte(m.GetDomain()), HitsAddend: m.GetHitsAddend()}
	for _, from := range m.GetDescriptors() {
		d := anyDescriptor{IsNegative: from.GetIsNegativeHits(), HasHits: from.GetHitsAddend() != nil, Hits: from.GetHitsAddend().GetValue()}
		for _, e := range from.GetEntries() {
			d.Entries = append(d.Entries, descriptors.Entry{Key: []byte(e.GetKey()), Value: []byte(e.GetValue())})
		}
		if limit := from.GetLimit(); limit != nil {
			d.HasOverride = true
			d.Override = descriptors.Override{
				Requests:   limit.GetRequestsPerUnit(),
				Unit:       int32(limit.GetUnit()),
				Multiplier: limit.GetUnitMultiplier().GetValue(),
			}
		}
		r.Descriptors = append(r.Descriptors, d)
	}
	return r
}

// decoded returns the i-th request of a batch.
func (b *batch) decoded(i int) *anyRequest {
	r := &b.requests[i]
	got := &anyRequest{Domain: r.domain, HitsAddend: r.hitsAddend}
	list := b.of(r)
	for i := range list {
		d := &list[i]
		got.Descriptors = append(got.Descriptors, anyDescriptor{
			Entries: b.entriesOf(d), Override: d.override, HasOverride: d.hasOverride, Hits: d.hits, HasHits: d.hasHits, IsNegative: d.isNegative,
		})
	}
	return got
}

// encode writes a request as a client would, with any bytes in its strings.
func encode(r *anyRequest) []byte {
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

func encodeDescriptor(d *anyDescriptor) []byte {
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
func same(a, b *anyRequest) bool {
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

var everything = anyRequest{
	Domain:     []byte("edge"),
	HitsAddend: 7,
	Descriptors: []anyDescriptor{
		{Entries: entries("plan", "free", "user", "alice")},
		{Entries: entries("user", "u1\xff\x00"), HasHits: true},
		{Entries: entries("empty", ""), HasOverride: true, Override: descriptors.Override{Requests: 5, Unit: 4, Multiplier: 3}},
		{HasHits: true, Hits: 1<<64 - 1, IsNegative: true},
	},
}

// A request is decoded alike whatever the batch holds before it, or held in an
// earlier life.
func TestDecodeEverything(t *testing.T) {
	wire := encode(&everything)
	var b batch
	for range 3 {
		for i := range 3 {
			if b.decode(wire); !same(b.decoded(i), &everything) {
				t.Errorf("got %+v", b.decoded(i))
			}
		}
		for i := range 3 {
			if !same(b.decoded(i), &everything) {
				t.Errorf("became %+v", b.decoded(i))
			}
		}
		b.reset()
	}
}

// A batch that waits to be used again holds on to no message and no rule.
func TestResetLetsGo(t *testing.T) {
	s, err := New(newMemory(), Options{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.SetRules(compile(t, mixedPolicy("precise")))
	var b batch
	random := rand.New(rand.NewPCG(5, 6))
	for i := range 50 {
		wire := encode(randomRequest(random))
		if i > 40 {
			wire = append(wire, 0x80) // malformed, as is found at its end
		}
		s.admit(&b, s.table.Load(), &Exchange{Request: wire}, time.Now())
	}
	s.decide(t.Context(), &b, s.table.Load())
	b.reset()
	for i, kept := range []any{
		b.requests[:cap(b.requests)], b.descriptors[:cap(b.descriptors)], b.entries[:cap(b.entries)], b.rules[:cap(b.rules)],
		b.asks[:cap(b.asks)], b.views[:cap(b.views)], b.decisions[:cap(b.decisions)],
	} {
		for j := range reflect.ValueOf(kept).Len() {
			if !reflect.ValueOf(kept).Index(j).IsZero() {
				t.Fatalf("slice %d holds %+v", i, reflect.ValueOf(kept).Index(j))
			}
		}
	}
}

func TestDecodeMergesAsProtobufDoes(t *testing.T) {
	descriptor := encodeDescriptor(&anyDescriptor{HasOverride: true, Override: descriptors.Override{Requests: 5, Unit: 4, Multiplier: 3}})
	descriptor = appendBytes(descriptor, 2, appendVarint(nil, 1, 6)) // only requests_per_unit
	descriptor = appendBytes(descriptor, 3, appendVarint(nil, 1, 8))
	descriptor = appendBytes(descriptor, 3, nil)
	descriptor = appendVarint(appendVarint(descriptor, 4, 1), 4, 0)
	wire := appendBytes(appendBytes(nil, 1, []byte("first")), 1, []byte("last"))
	wire = appendVarint(appendBytes(wire, 2, descriptor), 99, 1)
	wire = appendVarint(appendBytes(wire, 3, []byte("of another type")), 3, 1<<32+9)
	want := anyRequest{Domain: []byte("last"), HitsAddend: 9, Descriptors: []anyDescriptor{
		{HasOverride: true, Override: descriptors.Override{Requests: 6, Unit: 4, Multiplier: 3}, HasHits: true, Hits: 8},
	}}
	var b batch
	if r := b.decode(wire); r.malformed || !same(b.decoded(0), &want) {
		t.Errorf("got %+v", b.decoded(0))
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
		var b batch
		good := encode(&everything)
		b.decode(good)
		bad := b.decode(append(encode(&everything), wire...))
		if err := b.check(bad); err == nil || err.Kind != InvalidArgument {
			t.Errorf("%s: checked as %v", name, err)
		}
		if b.decode(good); !same(b.decoded(0), &everything) || len(b.decoded(1).Descriptors) != 0 || !same(b.decoded(2), &everything) {
			t.Errorf("%s: spoils its neighbours", name)
		}
	}
}

// Two bytes on the wire are a descriptor: memory must not grow with them.
func TestDecodeBoundsMemory(t *testing.T) {
	many := appendBytes(nil, 1, []byte("d"))
	for range maxStoredDescriptors + 5 {
		many = append(many, 0x12, 0x00)
	}
	full := appendBytes(nil, 2, bytes.Repeat([]byte{0x0a, 0x00}, maxStoredEntries+5))
	for i, message := range [][]byte{many, full} {
		var b batch
		for range 2 { // each request has bounds of its own
			r := b.decode(message)
			if list := b.of(r); !r.excess || i == 0 && len(list) != maxStoredDescriptors || i == 1 && len(b.entriesOf(&list[0])) != maxStoredEntries {
				t.Errorf("message %d: %d descriptors, excess %v", i, len(list), r.excess)
			}
		}
		if !b.full() {
			t.Errorf("message %d: takes more", i)
		}
		if !b.large() {
			t.Errorf("message %d: would be kept for reuse", i)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(encode(&everything))
	f.Add([]byte{0x12, 0x02, 0x0a, 0x00})
	f.Add([]byte{0x0b, 0x12, 0x00, 0x0c})                           // a group in the place of a string
	f.Add(append([]byte{0x12, 0x83, 0x80, 0x00}, 0x0a, 0x01, 0x78)) // a length in more bytes than it needs
	valid := encode(&everything)
	f.Fuzz(func(t *testing.T, wire []byte) {
		before := bytes.Clone(wire)
		var b batch
		b.decode(valid)
		malformed := b.decode(wire).malformed
		b.decode(valid)
		if !bytes.Equal(wire, before) {
			t.Fatal("the message was written to")
		}
		if !same(b.decoded(0), &everything) || !same(b.decoded(2), &everything) {
			t.Fatal("it spoils its neighbours")
		}
		var m rlsv3.RateLimitRequest
		wanted := proto.Unmarshal(wire, &m)
		if wanted != nil && strings.Contains(wanted.Error(), "UTF-8") {
			return // this is what the decoder is for
		}
		if malformed != (wanted != nil) {
			t.Fatalf("malformed %v, protobuf says %v", malformed, wanted)
		}
		if !malformed && !same(b.decoded(1), fromProto(&m)) {
			t.Fatalf("got %+v, want %v", b.decoded(1), &m)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	wire := encode(&everything)
	b.Run("this", func(b *testing.B) {
		b.ReportAllocs()
		var memory batch
		for b.Loop() {
			if memory.decode(wire).malformed {
				b.Fatal("malformed")
			}
			memory.reset()
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
