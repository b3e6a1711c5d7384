package resource

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/ratelimitd/ratelimitd/pkg/descriptors"
)

// extension is the key of a descriptor's metadata that holds the fields which
// the message does not have.
const extension = "ratelimitd"

// policy writes a resource as the policy that a file would hold. It checks
// nothing but what would not be seen in the policy any more.
func policy(c *ratelimitv3.RateLimitConfig) (*yaml.Node, error) {
	var w writer
	root := newMapping()
	root.set("domain", text(c.GetDomain()))
	root.set("descriptors", w.descriptors(c.GetDescriptors(), ""))
	if w.fault != nil {
		return nil, w.fault
	}
	return root.node, nil
}

// writer writes the descriptors of one resource.
type writer struct {
	fault *descriptors.Error // the first that is found
}

func (w *writer) descriptors(all []*ratelimitv3.RateLimitDescriptor, above string) *yaml.Node {
	items := make([]*yaml.Node, len(all))
	for i, d := range all {
		items[i] = w.descriptor(d, above+"descriptors["+strconv.Itoa(i)+"]")
	}
	return list(items)
}

func (w *writer) descriptor(d *ratelimitv3.RateLimitDescriptor, path string) *yaml.Node {
	m := newMapping()
	m.set("key", text(d.GetKey()))
	m.set("value", text(d.GetValue()))
	m.flag("shadow_mode", d.GetShadowMode())
	m.flag("quota_mode", d.GetQuotaMode())
	m.flag("detailed_metric", d.GetDetailedMetric())
	if d.GetRateLimit() != nil {
		m.set("rate_limit", limit(d.GetRateLimit()).node)
	}
	w.metadata(m, d, path)
	if len(d.GetDescriptors()) > 0 {
		m.set("descriptors", w.descriptors(d.GetDescriptors(), path+"."))
	}
	return m.node
}

// metadata writes the metadata of a descriptor, and the fields that stand in
// it.
func (w *writer) metadata(m *mapping, d *ratelimitv3.RateLimitDescriptor, path string) {
	kept := newMapping()
	for _, name := range slices.Sorted(maps.Keys(d.GetMetadata().GetFields())) {
		v := d.GetMetadata().GetFields()[name]
		if name != extension {
			kept.set(name, anything(v))
			continue
		}
		fields, ok := v.GetKind().(*structpb.Value_StructValue)
		if !ok {
			w.refuse(path, "must be a mapping of fields of a descriptor")
			continue
		}
		m.extend(d, fields.StructValue)
	}
	if len(kept.node.Content) > 0 {
		m.set("metadata", kept.node)
	}
}

func (w *writer) refuse(path, problem string) {
	if w.fault == nil {
		w.fault = &descriptors.Error{Path: path + ".metadata." + extension, Problem: problem}
	}
}

// extend sets the fields of a descriptor that its metadata holds. Those of
// rate_limit add to the limit of the message.
func (m *mapping) extend(d *ratelimitv3.RateLimitDescriptor, fields *structpb.Struct) {
	for _, name := range slices.Sorted(maps.Keys(fields.GetFields())) {
		v := fields.GetFields()[name]
		more, ok := v.GetKind().(*structpb.Value_StructValue)
		if name != "rate_limit" || !ok || d.GetRateLimit() == nil {
			m.set(name, anything(v))
			continue
		}
		both := limit(d.GetRateLimit())
		for _, name := range slices.Sorted(maps.Keys(more.StructValue.GetFields())) {
			both.set(name, anything(more.StructValue.GetFields()[name]))
		}
		m.set(name, both.node)
	}
}

// limit writes a limit. The message cannot tell 0 from nothing: a limit of 0
// denies everything, as in a file, but says nothing beside unlimited.
func limit(l *ratelimitv3.RateLimitPolicy) *mapping {
	m := newMapping()
	if l.GetRequestsPerUnit() != 0 || !l.GetUnlimited() {
		m.set("requests_per_unit", scalar("!!int", strconv.FormatUint(uint64(l.GetRequestsPerUnit()), 10)))
	}
	if l.GetUnit() != ratelimitv3.RateLimitUnit_UNKNOWN {
		m.set("unit", text(l.GetUnit().String()))
	}
	m.flag("unlimited", l.GetUnlimited())
	if l.GetName() != "" {
		m.set("name", text(l.GetName()))
	}
	if len(l.GetReplaces()) > 0 {
		items := make([]*yaml.Node, len(l.GetReplaces()))
		for i, r := range l.GetReplaces() {
			item := newMapping()
			item.set("name", text(r.GetName()))
			items[i] = item.node
		}
		m.set("replaces", list(items))
	}
	return m
}

// anything writes a value of metadata.
func anything(v *structpb.Value) *yaml.Node {
	switch kind := v.GetKind().(type) {
	case *structpb.Value_StructValue:
		m := newMapping()
		for _, name := range slices.Sorted(maps.Keys(kind.StructValue.GetFields())) {
			m.set(name, anything(kind.StructValue.GetFields()[name]))
		}
		return m.node
	case *structpb.Value_ListValue:
		items := make([]*yaml.Node, len(kind.ListValue.GetValues()))
		for i, item := range kind.ListValue.GetValues() {
			items[i] = anything(item)
		}
		return list(items)
	case *structpb.Value_BoolValue:
		return scalar("!!bool", strconv.FormatBool(kind.BoolValue))
	case *structpb.Value_NumberValue:
		return number(kind.NumberValue)
	case *structpb.Value_StringValue:
		return text(kind.StringValue)
	}
	return scalar("!!null", "")
}

// number writes a whole number as one, for fields that want it.
func number(n float64) *yaml.Node {
	const exact = 1 << 53
	if whole := int64(n); n >= -exact && n <= exact && float64(whole) == n {
		return scalar("!!int", strconv.FormatInt(whole, 10))
	}
	return scalar("!!float", fmt.Sprint(n))
}
