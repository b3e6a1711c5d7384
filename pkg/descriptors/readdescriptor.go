package descriptors

import (
	"slices"
	"strings"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

const (
	// maxLevels is how many entries a rule can have.
	maxLevels = 64

	// maxLimits is how many limits a rule can have. Each is a counter that
	// every request reads.
	maxLimits = 32
)

// reader reads the descriptors of one document.
type reader struct {
	draft    *draft
	defaults defaults
}

// descriptors reads a list of descriptors below a path that has a priority.
func (r *reader) descriptors(at *value, above []PathEntry, priority algorithm.Priority) []*branch {
	if len(above) == maxLevels {
		at.errorf("descriptors are nested more than %d deep", maxLevels)
		return nil
	}
	items, ok := at.items()
	if !ok {
		return nil
	}
	branches := make([]*branch, 0, len(items))
	for _, item := range items {
		if b := r.descriptor(item, above, priority); b != nil {
			branches = append(branches, b)
		}
	}
	return branches
}

// descriptor reads one descriptor. What is at fault is left out, so that the
// rest can be checked too.
func (r *reader) descriptor(at *value, above []PathEntry, priority algorithm.Priority) *branch {
	fields, ok := at.fields(&descriptorShape)
	if !ok {
		return nil
	}
	entry, named := readEntry(at, fields)
	path := append(slices.Clip(above), entry)
	b := &branch{at: at, entry: entry, rule: &Rule{
		Domain: r.draft.domain, Path: path, File: at.src.file, Line: at.site.Line,
	}}
	said := readTerms(fields, priority)
	b.rule.DetailedMetric = readFlag(fields["detailed_metric"])
	r.limits(b, fields, said)
	if at := fields["metadata"]; at != nil {
		b.rule.Metadata = readMetadata(at)
	}
	if at := fields["descriptors"]; at != nil {
		b.children = r.descriptors(at, path, said.priority)
	}
	if !named {
		return nil
	}
	return b
}

// readEntry reads what a descriptor matches.
func readEntry(at *value, fields map[string]*value) (PathEntry, bool) {
	var e PathEntry
	ok := true
	if at := fields["key"]; at != nil {
		e.Key, ok = at.text()
	}
	if e.Key == "" && ok {
		at.missing("a descriptor needs a key that is not empty")
		ok = false
	}
	if at := fields["value"]; at != nil {
		value, fine := at.text()
		e.Value, ok = value, ok && fine
	}
	if at := fields["share_threshold"]; at != nil {
		e.Share, _ = at.boolean()
		if e.Share && !strings.Contains(e.Value, "*") {
			report := at.errorf
			if strings.Contains(e.Key, "*") { // a pattern there, and none here
				report = at.lapse
			}
			report("share_threshold is for a value with a *, whose matches share one counter; the value here is %s", quote(e.Value))
			e.Share = false
		}
	}
	if e.Share {
		e.shared = []byte(e.Value)
	}
	e.ValueToMetric = readFlag(fields["value_to_metric"])
	return e, ok
}

// terms are what a descriptor says of all its limits.
type terms struct {
	shadow, quota bool
	priority      algorithm.Priority
}

// readTerms reads them.
func readTerms(fields map[string]*value, inherited algorithm.Priority) terms {
	return terms{
		shadow:   readFlag(fields["shadow_mode"]),
		quota:    readFlag(fields["quota_mode"]),
		priority: readPriority(fields["priority"], inherited),
	}
}

func readFlag(at *value) bool {
	if at == nil {
		return false
	}
	set, _ := at.boolean()
	return set
}

// limits reads rate_limit or rate_limits into the rule of a branch.
func (r *reader) limits(b *branch, fields map[string]*value, said terms) {
	one, many := fields["rate_limit"], fields["rate_limits"]
	if one != nil {
		r.limit(b, one, said, true)
	}
	if many == nil {
		return
	}
	if one != nil {
		many.errorf("a descriptor has rate_limit or rate_limits, not both")
	}
	items, ok := many.items()
	if ok && (len(items) == 0 || len(items) > maxLimits) {
		many.errorf("has %d limits; from 1 to %d are allowed", len(items), maxLimits)
		return
	}
	for _, item := range items {
		before := len(b.rule.Limits)
		r.limit(b, item, said, len(items) == 1)
		if len(b.rule.Limits) > before {
			checkAlike(item, b.rule.Limits)
		}
	}
}

// checkAlike reports a limit, the last, that nothing tells apart from another
// of its rule.
func checkAlike(at *value, limits []*Limit) {
	last := limits[len(limits)-1]
	for _, other := range limits[:len(limits)-1] {
		if sameWindow(last.Limit, other.Limit) && last.Name == other.Name && last.shared == other.shared {
			at.errorf("another limit of this descriptor has the algorithm %s and the same window; keep the lower one, or give them different names", last.Limit.Algorithm.Name)
			return
		}
	}
}

// sameWindow reports whether only a name or a region can tell the counters of
// two limits of a rule apart.
func sameWindow(a, b *algorithm.Limit) bool {
	return a.Algorithm == b.Algorithm && a.Window == b.Window &&
		calendarIdentity(a.Calendar) == calendarIdentity(b.Calendar)
}
