package service

import (
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/ratelimitd/ratelimitd/pkg/descriptors"
)

// RequestFromProto returns the request that a decoded message stands for.
//
// Strings are taken as they are, and nothing in them is an escape: "\xff" in a
// value is these four characters. A value that is not UTF-8 can be asked for
// over gRPC only; where one is written, in dynamic metadata, its odd bytes show
// as \xNN.
func RequestFromProto(m *rlsv3.RateLimitRequest) *Request {
	r := &Request{
		Domain:      []byte(m.GetDomain()),
		Descriptors: make([]Descriptor, 0, len(m.GetDescriptors())),
		HitsAddend:  m.GetHitsAddend(),
		Strict:      true,
	}
	for _, from := range m.GetDescriptors() {
		d := Descriptor{IsNegative: from.GetIsNegativeHits(), HasHits: from.GetHitsAddend() != nil, Hits: from.GetHitsAddend().GetValue()}
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
