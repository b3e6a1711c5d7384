package service

import (
	"encoding/json"
	"strings"
	"testing"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

const metadataPolicy = `
domain: t
descriptors:
  - key: a
    rate_limit: {unit: hour, requests_per_unit: 9}
    metadata: {pool: red, info: {x: 1, list: [1, {deep: true}]}}
  - key: b
    rate_limit: {unit: hour, requests_per_unit: 9}
    metadata: {pool: blue, info: {kind: two}}
  - key: over
    rate_limit: {unit: hour, requests_per_unit: 0}
    metadata: {never: seen}
  - key: trial
    shadow_mode: true
    rate_limit: {unit: hour, requests_per_unit: 0}
  - key: queue
    rate_limit: {unit: second, requests_per_unit: 4, algorithm: leaky_bucket}
`

// compact writes the metadata of a reply as JSON with sorted names.
func compact(t *testing.T, r *rlsv3.RateLimitResponse) string {
	t.Helper()
	text, err := protojson.Marshal(r.DynamicMetadata)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	text, _ = json.Marshal(v)
	return string(text)
}

func TestDynamicMetadata(t *testing.T) {
	o := DefaultOptions()
	o.Metadata = true
	s := start(t, o, metadataPolicy)
	for i, row := range [][2]string{
		{"(a=1)", `{"descriptors":[{"entries":["a=1"]}],"domain":"t","metadata":{"info":{"list":[1,{"deep":true}],"x":1},"pool":"red"}}`},
		{"(a=1)+(b=2)", `{"descriptors":[{"entries":["a=1"]},{"entries":["b=2"]}],"domain":"t","metadata":{"info":{"kind":"two","list":[1,{"deep":true}],"x":1},"pool":"red"}}`},
		{"(b=2)", `{"descriptors":[{"entries":["b=2"]}],"domain":"t","metadata":{"info":{"kind":"two"},"pool":"blue"}}`}, // the merge changed no rule
		{"(a=1 zz=)+(b=2 hits=3) hits=2", `{"descriptors":[{"entries":["a=1","zz="]},{"entries":["b=2"],"hitsAddend":3}],"domain":"t","hitsAddend":2,"metadata":{"info":{"kind":"two"},"pool":"blue"}}`},
		{"(over=1)", `{"denied":[{"descriptor":0,"limit":"over","never":true,"retry_after":3600}],"descriptors":[{"entries":["over=1"]}],"domain":"t"}`},
		{"(trial=1)", `{"denied":[{"descriptor":0,"limit":"trial","never":true,"retry_after":3600,"shadow":true}],"descriptors":[{"entries":["trial=1"]}],"domain":"t"}`},
		{"(queue=1)", `{"delay_ms":0,"descriptors":[{"entries":["queue=1"]}],"domain":"t"}`},
		{"(queue=1)", `{"delay_ms":250,"descriptors":[{"entries":["queue=1"]}],"domain":"t"}`},
		{"(queue=1)+(over=1)", `{"denied":[{"descriptor":1,"limit":"over","never":true,"retry_after":3600}],"descriptors":[{"entries":["queue=1"]},{"entries":["over=1"]}],"domain":"t"}`},
		{"(a=1 limit=5/DAY*2)", `{"descriptors":[{"entries":["a=1"],"limit":"requests_per_unit:5 unit:DAY unit_multiplier:2"}],"domain":"t"}`},
		{"(a=1 hits=3 back)", `{"descriptors":[{"entries":["a=1"],"hitsAddend":3,"isNegativeHits":true}],"domain":"t","metadata":{"info":{"list":[1,{"deep":true}],"x":1},"pool":"red"}}`},
	} {
		response, err := s.ask(t, row[0])
		if err != nil {
			t.Fatal(err)
		}
		if got := compact(t, response); got != row[1] {
			t.Errorf("call %d, %s:\ngot  %s\nwant %s", i, row[0], got, row[1])
		}
	}
}

func TestMetadataNeverChangesARule(t *testing.T) {
	rules := compile(t, metadataPolicy)
	a := rules.Domain([]byte("t")).Match(entries("a", "1")).Metadata
	b := rules.Domain([]byte("t")).Match(entries("b", "1")).Metadata
	wantA, wantB := proto.Clone(a), proto.Clone(b)
	merged := merge(merge(nil, a), b)
	if merged.Fields["info"].GetStructValue().Fields["kind"].GetStringValue() != "two" {
		t.Errorf("merged %v", merged)
	}
	if !proto.Equal(a, wantA) || !proto.Equal(b, wantB) {
		t.Errorf("became %v and %v", a, b)
	}
}

// What a client sends comes back as valid UTF-8 and in bounded length, or the
// reply could not be sent.
func TestMetadataOfHostileBytes(t *testing.T) {
	o := DefaultOptions()
	o.Metadata, o.MaxRequestBytes, o.MaxDescriptors = true, 64<<20, 1000
	s := start(t, o, metadataPolicy)
	r := &anyRequest{Domain: []byte("t")}
	for range 1000 {
		r.Descriptors = append(r.Descriptors, anyDescriptor{Entries: entries("a", "u1\xff\x00", "long", strings.Repeat("é\xc3", 10_000))})
	}
	response, err := s.askRaw(t, encode(r))
	if err != nil {
		t.Fatal(err)
	}
	if size := proto.Size(response.DynamicMetadata); size > 256<<10 {
		t.Errorf("%d bytes", size)
	}
	list := response.DynamicMetadata.Fields["descriptors"].GetListValue().Values
	first := list[0].GetStructValue().Fields["entries"].GetListValue().Values
	if got := first[0].GetStringValue(); got != `a=u1\xff`+"\x00" || len(list) != maxMetadataDescriptors {
		t.Errorf("%d descriptors, the first %q", len(list), got)
	}
	if got := first[1].GetStringValue(); !strings.HasSuffix(got, "…") {
		t.Errorf("not cut: %q", got)
	}
}

func TestBodyAndDelayHeader(t *testing.T) {
	o := Options{Body: true, Headers: Headers{Delay: true}}
	s := start(t, o, metadataPolicy)
	for i, row := range []struct{ ask, headers, body string }{
		{"(a=1)", "", ""},
		{"(queue=1)", "X-RateLimit-Delay-Ms: 0", ""},
		{"(queue=1)", "X-RateLimit-Delay-Ms: 250", ""},
		{"(queue=1)+(over=1)", "Content-Type: application/problem+json", `"violated-policies":["over"]`},
		{"(over=1)", "Content-Type: application/problem+json", `"retry_after":3600`},
		{"(trial=1)", "", ""},
	} {
		response, err := s.ask(t, row.ask)
		if err != nil {
			t.Fatal(err)
		}
		if got := headersOf(response); got != row.headers {
			t.Errorf("call %d: headers %q, want %q", i, got, row.headers)
		}
		if got := string(response.RawBody); !strings.Contains(got, row.body) || (got == "") != (row.body == "") {
			t.Errorf("call %d: body %q", i, got)
		}
	}
}
