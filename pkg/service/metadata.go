package service

import (
	"strconv"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
	"github.com/ratelimitd/ratelimitd/pkg/descriptors"
)

const (
	// maxMetadataDescriptors and maxMetadataText bound what a client can
	// make a reply echo. A proxy may refuse a reply that is too large, and
	// then lets the request through.
	maxMetadataDescriptors = 64
	maxMetadataText        = 512
)

// metadata returns the dynamic metadata of a reply, which Envoy's access log
// can show:
//
//	domain, descriptors, hitsAddend   the request; values cut at 512 bytes
//	metadata    that of the matched rules, merged; not of those that deny
//	denied      the limits that deny or, if shadow, would
//	delay_ms    how long a leaky bucket's queue holds the request
//	degraded    true where a failure policy answered in place of the store
func (c *call) metadata(r *rlsv3.RateLimitResponse) *structpb.Struct {
	fields := map[string]*structpb.Value{
		"domain":      structpb.NewStringValue(text(c.request.Domain)),
		"descriptors": structpb.NewListValue(&structpb.ListValue{Values: c.described()}),
	}
	if hits := c.request.HitsAddend; hits != 0 {
		fields["hitsAddend"] = structpb.NewNumberValue(float64(hits))
	}
	if merged := c.merged(r.Statuses); len(merged.GetFields()) > 0 {
		fields["metadata"] = structpb.NewStructValue(merged)
	}
	if denied := c.denied(); len(denied) > 0 {
		fields["denied"] = structpb.NewListValue(&structpb.ListValue{Values: denied})
	}
	if delay, ok := c.delay(); ok && r.OverallCode == rlsv3.RateLimitResponse_OK {
		fields["delay_ms"] = structpb.NewNumberValue(float64(milliseconds(delay)))
	}
	for i := range c.decisions {
		if c.decisions[i].Degraded {
			fields["degraded"] = structpb.NewBoolValue(true)
			break
		}
	}
	return &structpb.Struct{Fields: fields}
}

// described returns the request's descriptors as text.
func (c *call) described() []*structpb.Value {
	var list []*structpb.Value
	for i := range min(len(c.request.Descriptors), maxMetadataDescriptors) {
		d := &c.request.Descriptors[i]
		var entries []*structpb.Value
		for j := range min(len(d.Entries), maxMetadataDescriptors) {
			e := &d.Entries[j]
			entries = append(entries, structpb.NewStringValue(text(e.Key)+"="+text(e.Value)))
		}
		fields := map[string]*structpb.Value{"entries": structpb.NewListValue(&structpb.ListValue{Values: entries})}
		if d.HasOverride {
			fields["limit"] = structpb.NewStringValue(overrideText(d.Override))
		}
		if d.HasHits {
			fields["hitsAddend"] = structpb.NewNumberValue(float64(d.Hits))
		}
		if d.IsNegative {
			fields["isNegativeHits"] = structpb.NewBoolValue(true)
		}
		list = append(list, structpb.NewStructValue(&structpb.Struct{Fields: fields}))
	}
	return list
}

// denied describes the limits that denied the request or would have.
func (c *call) denied() []*structpb.Value {
	var list []*structpb.Value
	for i := range c.spans {
		for j := c.spans[i].first; j < c.spans[i].last; j++ {
			d := &c.decisions[j]
			if d.Outcome != algorithm.Denied || len(list) == maxMetadataDescriptors {
				continue
			}
			fields := map[string]*structpb.Value{
				"descriptor":  structpb.NewNumberValue(float64(i)),
				"limit":       structpb.NewStringValue(text([]byte(policyName(c.limits[j])))),
				"retry_after": structpb.NewNumberValue(float64(wait(d))),
			}
			for name, set := range map[string]bool{"shadow": c.asks[j].Shadow, "quota": c.asks[j].Quota, "never": d.Never} {
				if set {
					fields[name] = structpb.NewBoolValue(true)
				}
			}
			list = append(list, structpb.NewStructValue(&structpb.Struct{Fields: fields}))
		}
	}
	return list
}

// overrideText writes the limit that a descriptor brought.
func overrideText(o descriptors.Override) string {
	s := "requests_per_unit:" + strconv.FormatUint(uint64(o.Requests), 10) + " unit:" + typev3.RateLimitUnit(o.Unit).String()
	if o.Multiplier != 0 {
		s += " unit_multiplier:" + strconv.FormatUint(uint64(o.Multiplier), 10)
	}
	return s
}
