package service

import (
	"errors"
	"testing"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"
)

// FuzzShouldRateLimit sends any bytes through the whole service. Nothing but a
// request that cannot be right gets an error, and every reply can be sent: a
// string in it that is not UTF-8 would become an error, which lets the request
// through.
func FuzzShouldRateLimit(f *testing.F) {
	request := everything
	request.Domain = []byte("t")
	request.Descriptors = append([]Descriptor{
		{Entries: entries("site", "s\xff")}, {Entries: entries("acct", "", "x", "\x00")}, {Entries: entries("site", "s"), HasHits: true, Hits: 1 << 63},
	}, request.Descriptors[:3]...)
	f.Add(encode(&request))
	f.Add(encode(&Request{Domain: []byte("t\xff"), Descriptors: []Descriptor{{Entries: entries("\xff", "\xff")}}}))
	store := newMemory()
	o := DefaultOptions()
	o.Metadata, o.Body = true, true
	o.Headers.Triple, o.Headers.XTriple, o.Headers.Delay = true, true, true
	s, err := New(store, o, nil)
	if err != nil {
		f.Fatal(err)
	}
	s.SetRules(compile(f, sitePolicy))
	f.Fuzz(func(t *testing.T, wire []byte) {
		var request Request
		decoded := request.Unmarshal(wire)
		response, err := s.ShouldRateLimit(t.Context(), &request)
		var failure *Error
		if err != nil {
			if !errors.As(err, &failure) || failure.Kind != InvalidArgument {
				t.Fatalf("%v", err)
			}
			return
		}
		if decoded != nil {
			t.Fatalf("malformed (%v) but answered", decoded)
		}
		if _, err := proto.Marshal(response); err != nil {
			t.Fatal(err)
		}
		if response.OverallCode == rlsv3.RateLimitResponse_UNKNOWN || len(response.Statuses) != len(request.Descriptors) {
			t.Fatalf("%d descriptors: %v", len(request.Descriptors), response)
		}
		for _, status := range response.Statuses {
			if status.Code == rlsv3.RateLimitResponse_UNKNOWN || (status.CurrentLimit == nil) != (status.DurationUntilReset == nil) {
				t.Fatalf("status %v", status)
			}
		}
		for _, h := range response.ResponseHeadersToAdd {
			if !safeValue.MatchString(h.Value) {
				t.Fatalf("header %v", h)
			}
		}
	})
}
