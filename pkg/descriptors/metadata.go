package descriptors

import (
	"math"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// maxMetadata bounds how deep metadata nests. Each level takes up to three of
// the hundred levels that Envoy's protobuf parser allows; past these it would
// reject the answer and let the request through.
const maxMetadata = 24

// readMetadata reads a free mapping; nil for an empty one or a fault.
func readMetadata(at *value) *structpb.Struct {
	s, ok := metadataStruct(at, 0)
	if !ok || len(s.GetFields()) == 0 {
		return nil
	}
	return s
}

func metadataStruct(at *value, depth int) (*structpb.Struct, bool) {
	if depth == maxMetadata {
		at.errorf("metadata is nested more than %d deep", maxMetadata)
		return nil, false
	}
	all, ok := at.mapping()
	if !ok {
		return nil, false
	}
	s := &structpb.Struct{Fields: make(map[string]*structpb.Value, len(all))}
	for _, f := range all {
		v, fine := metadataValue(f.value, depth+1)
		s.Fields[f.name], ok = v, ok && fine
	}
	return s, ok
}

func metadataValue(at *value, depth int) (*structpb.Value, bool) {
	switch at.node.Kind {
	case yaml.MappingNode:
		s, ok := metadataStruct(at, depth)
		return structpb.NewStructValue(s), ok
	case yaml.SequenceNode:
		return metadataList(at, depth)
	}
	return metadataScalar(at)
}

func metadataList(at *value, depth int) (*structpb.Value, bool) {
	if depth == maxMetadata {
		at.errorf("metadata is nested more than %d deep", maxMetadata)
		return nil, false
	}
	items, ok := at.items()
	if !ok {
		return nil, false
	}
	list := &structpb.ListValue{Values: make([]*structpb.Value, 0, len(items))}
	for _, item := range items {
		v, fine := metadataValue(item, depth+1)
		list.Values, ok = append(list.Values, v), ok && fine
	}
	return structpb.NewListValue(list), ok
}

// metadataScalar takes the booleans of YAML 1.1 for booleans and dates for
// text, as envoyproxy/ratelimit does.
func metadataScalar(at *value) (*structpb.Value, bool) {
	if b, ok := plainBool(at.node); ok {
		return structpb.NewBoolValue(b), true
	}
	switch at.node.ShortTag() {
	case nullTag:
		return structpb.NewNullValue(), true
	case intTag, floatTag:
		return metadataNumber(at)
	}
	text, ok := at.text()
	if ok && !utf8.ValidString(text) {
		at.errorf("metadata must be UTF-8")
		ok = false
	}
	return structpb.NewStringValue(text), ok
}

// metadataNumber reads a number. The protocol has doubles; a whole number that
// none holds would be sent as another one.
func metadataNumber(at *value) (*structpb.Value, bool) {
	var n float64
	if err := at.node.Decode(&n); err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
		at.errorf("%s is not a number that metadata can hold", shorten(at.node.Value))
		return nil, false
	}
	const exact = 1 << 53
	var whole int64
	if at.node.ShortTag() == intTag && (at.node.Decode(&whole) != nil || whole > exact || whole < -exact) {
		at.lapse("%s is more than a double holds exactly, at most %d; in quotes it is a text", shorten(at.node.Value), int64(exact))
		return structpb.NewNumberValue(n), at.src.faults.lenient
	}
	return structpb.NewNumberValue(n), true
}
