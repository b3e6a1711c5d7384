package descriptors

import (
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// limit reads one limit of a rule. alone says that the rule has no other.
func (r *reader) limit(b *branch, at *value, said terms, alone bool) {
	fields, ok := at.fields(&limitShape)
	if !ok {
		return
	}
	name := readName(fields["name"])
	if name != "" {
		b.names = append(b.names, name)
		if b.rule.Name == "" {
			b.rule.Name = name
		}
	}
	r.replaces(b, fields["replaces"])
	if at := fields["unlimited"]; at != nil {
		unlimited, ok := at.boolean()
		if !ok {
			return
		}
		if unlimited {
			checkUnlimited(at, fields, alone)
			b.rule.Unlimited = true
			return
		}
	}
	window, timed := readWindow(at, fields)
	spec, ok := r.spec(at, fields)
	onStoreError := r.defaults.onStoreError
	if at := fields["on_store_error"]; at != nil {
		onStoreError = readFailurePolicy(at)
	}
	priority := readPriority(fields["priority"], said.priority)
	shared := readRegion(fields["region"], r.defaults.shared)
	if !ok || !timed {
		return
	}
	spec.Window, spec.Calendar = window.length, window.calendar
	limit, err := algorithm.NewLimit(spec)
	if err != nil {
		reportSpec(at, fields, err)
		return
	}
	b.rule.Limits = append(b.rule.Limits, &Limit{
		Limit: limit, Unit: window.unit, Multiplier: window.multiplier,
		Name: name, Shadow: said.shadow, Quota: said.quota,
		OnStoreError: onStoreError, Priority: priority, shared: shared, Rule: b.rule, replaced: -1,
	})
}

// spec reads what decides besides the window.
func (r *reader) spec(at *value, fields map[string]*value) (algorithm.Spec, bool) {
	spec, good := algorithm.Spec{Algorithm: r.defaults.algorithm}, true
	var ok bool
	if at := fields["algorithm"]; at != nil {
		spec.Algorithm, ok = at.word("an algorithm", algorithm.Names())
		good = good && ok
	}
	if requests := fields["requests_per_unit"]; requests != nil {
		spec.Requests, ok = requests.whole(0, algorithm.MaxRequests)
		good = good && ok
	} else {
		good = at.src.faults.lenient // 0, that is
		if !at.flawed {
			at.lapse("requests_per_unit is missing; a whole number from 0, which denies everything, to %d", uint64(algorithm.MaxRequests))
		}
	}
	if at := fields["burst"]; at != nil {
		spec.Burst, ok = at.whole(1, algorithm.MaxRequests)
		good = good && ok
	}
	if at := fields["overdraw"]; at != nil {
		spec.Overdraw, ok = at.boolean()
		good = good && ok
	}
	return spec, good
}

// reportSpec puts what the algorithm cannot do at the field that asks for it.
func reportSpec(at *value, fields map[string]*value, err error) {
	var wrong *algorithm.SpecError
	if !errors.As(err, &wrong) {
		at.errorf("%v", err)
		return
	}
	for _, name := range []string{wrong.Field, "unit_multiplier", "unit"} {
		if field := fields[name]; field != nil {
			field.errorf("%s", wrong.Problem)
			return
		}
	}
	at.errorf("%v", err)
}

// checkUnlimited reports what makes no sense beside unlimited.
func checkUnlimited(at *value, fields map[string]*value, alone bool) {
	for _, name := range limitShape.names() {
		switch name {
		case "unlimited", "name", "replaces":
			continue
		}
		if field := fields[name]; field != nil {
			report := field.errorf
			if isReferenceField(name) && (name != "unit" || !isUnit(field)) {
				report = field.lapse
			}
			report("a rule that is unlimited has no %s; allowed beside unlimited: name, replaces", name)
		}
	}
	if !alone {
		at.errorf("a rule that is unlimited has no other limits")
	}
}

// isUnit reports whether a value names a unit.
func isUnit(at *value) bool { return unitByName(strings.ToLower(at.node.Value)) != nil }

// readName reads the name of a limit. Envoy writes it into a header between
// quotes and escapes nothing.
func readName(at *value) string {
	if at == nil {
		return ""
	}
	name, ok := at.text()
	if !ok {
		return ""
	}
	for i, c := range name {
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			_, size := utf8.DecodeRuneInString(name[i:])
			at.lapse("a name is sent in headers, so %s cannot have %+q; printable ASCII without \" and \\ is allowed", quote(name), name[i:i+size])
			break // where it is taken all the same, package service escapes it
		}
	}
	return name
}

// replaces reads the names that a rule replaces. Whether they exist is known
// when all files are read.
func (r *reader) replaces(b *branch, at *value) {
	if at == nil {
		return
	}
	items, _ := at.items()
	for _, item := range items {
		fields, ok := item.fields(&replacedShape)
		if !ok {
			continue
		}
		name := ""
		if at := fields["name"]; at != nil {
			if name, ok = at.text(); !ok {
				continue
			}
		}
		if name == "" {
			item.errorf("an item of replaces needs the name of a limit")
			continue
		}
		b.rule.Replaces = append(b.rule.Replaces, name)
		r.draft.replaces = append(r.draft.replaces, replacement{item, b, name})
	}
}
