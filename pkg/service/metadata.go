package service

import (
	"strconv"

	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/proto"
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
//	degraded_by which one: deny, local or allow
//
// The last four only if v is not nil.
func (b *batch) metadata(r *request, v *verdict) *structpb.Struct {
	fields := map[string]*structpb.Value{
		"domain":      structpb.NewStringValue(text(r.domain)),
		"descriptors": structpb.NewListValue(&structpb.ListValue{Values: b.described(r)}),
	}
	if hits := r.hitsAddend; hits != 0 {
		fields["hitsAddend"] = structpb.NewNumberValue(float64(hits))
	}
	if merged := b.merged(r); len(merged.GetFields()) > 0 {
		fields["metadata"] = structpb.NewStructValue(merged)
	}
	if v != nil {
		b.tell(fields, r, v)
	}
	return &structpb.Struct{Fields: fields}
}

// tell adds what was decided.
func (b *batch) tell(fields map[string]*structpb.Value, r *request, v *verdict) {
	if denied := b.denied(r); len(denied) > 0 {
		fields["denied"] = structpb.NewListValue(&structpb.ListValue{Values: denied})
	}
	if delay, ok := b.delay(r); ok && !v.over {
		fields["delay_ms"] = structpb.NewNumberValue(float64(milliseconds(delay)))
	}
	if by, degraded := b.degradedBy(r, anyAsk); degraded {
		fields["degraded"] = structpb.NewBoolValue(true)
		fields["degraded_by"] = structpb.NewStringValue(by.String())
	}
}

// appendMetadata appends the metadata to a reply. If it could not be encoded,
// which [text] and the policy's own UTF-8 rule out, a reply without it would be
// better than none.
func (b *batch) appendMetadata(reply []byte, r *request, v *verdict) []byte {
	field, mark := begin(reply, dynamicMetadata)
	field, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend(field, b.metadata(r, v))
	if err != nil {
		return reply
	}
	return end(field, mark)
}

// described returns the request's descriptors as text.
func (b *batch) described(r *request) []*structpb.Value {
	var list []*structpb.Value
	all := b.of(r)
	for i := range min(len(all), maxMetadataDescriptors) {
		d := &all[i]
		var entries []*structpb.Value
		for j, e := range b.entriesOf(d) {
			if j == maxMetadataDescriptors {
				break
			}
			entries = append(entries, structpb.NewStringValue(text(e.Key)+"="+text(e.Value)))
		}
		fields := map[string]*structpb.Value{"entries": structpb.NewListValue(&structpb.ListValue{Values: entries})}
		if d.hasOverride {
			fields["limit"] = structpb.NewStringValue(overrideText(d.override))
		}
		if d.hasHits {
			fields["hitsAddend"] = structpb.NewNumberValue(float64(d.hits))
		}
		if d.isNegative {
			fields["isNegativeHits"] = structpb.NewBoolValue(true)
		}
		list = append(list, structpb.NewStructValue(&structpb.Struct{Fields: fields}))
	}
	return list
}

// denied describes the limits that denied the request or would have.
func (b *batch) denied(r *request) []*structpb.Value {
	var list []*structpb.Value
	for i, d := range b.of(r) {
		for j := d.asks.first; j < d.asks.last; j++ {
			ask, decision := &b.asks[j], &b.decisions[j]
			if decision.Outcome != algorithm.Denied || len(list) == maxMetadataDescriptors {
				continue
			}
			fields := map[string]*structpb.Value{
				"descriptor":  structpb.NewNumberValue(float64(i)),
				"limit":       structpb.NewStringValue(text([]byte(policyName(b.views[j].limit)))),
				"retry_after": structpb.NewNumberValue(float64(b.views[j].wait(decision))),
			}
			for name, set := range map[string]bool{"shadow": ask.Shadow, "quota": ask.Quota, "never": decision.Never} {
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
