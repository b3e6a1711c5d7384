package service

import (
	"maps"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// merged merges the metadata of the rules whose descriptors were not denied.
// The first of two values holds; two structs are merged in turn.
func (b *batch) merged(r *request) *structpb.Struct {
	var all *structpb.Struct
	for i := r.descriptors.first; i < r.descriptors.last; i++ {
		rule := b.rules[i]
		if rule != nil && len(rule.Limits) > 0 && b.status(i).code != rlsv3.RateLimitResponse_OVER_LIMIT {
			all = merge(all, rule.Metadata)
		}
	}
	return all
}

// merge returns the fields of a and b. It changes neither, since both may
// belong to rules: what it cannot share it copies.
func merge(a, b *structpb.Struct) *structpb.Struct {
	switch {
	case len(a.GetFields()) == 0:
		return b
	case len(b.GetFields()) == 0:
		return a
	}
	fields := make(map[string]*structpb.Value, len(a.Fields)+len(b.Fields))
	maps.Copy(fields, a.Fields)
	for name, value := range b.Fields {
		mine, taken := fields[name]
		inner := mine.GetStructValue()
		switch {
		case !taken:
			fields[name] = value
		case inner != nil && value.GetStructValue() != nil:
			fields[name] = structpb.NewStructValue(merge(inner, value.GetStructValue()))
		}
	}
	return &structpb.Struct{Fields: fields}
}
