package descriptors

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// limit reads one limit of a rule. alone says that the rule has no other.
func (r *reader) limit(b *branch, at *value, flags flags, alone bool) {
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
		onStoreError, _ = readFailurePolicy(at)
	}
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
		Name: name, Shadow: flags.shadow, Quota: flags.quota,
		OnStoreError: onStoreError, Rule: b.rule, replaced: -1,
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
		at.missing("requests_per_unit is missing; a whole number from 0, which denies everything, to %d", uint64(algorithm.MaxRequests))
		good = false
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
	for _, name := range limitShape.fields {
		switch name {
		case "unlimited", "name", "replaces":
			continue
		}
		if field := fields[name]; field != nil {
			field.errorf("a rule that is unlimited has no %s; allowed beside unlimited: name, replaces", name)
		}
	}
	if !alone {
		at.errorf("a rule that is unlimited has no other limits")
	}
}

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
			at.errorf("a name is sent in headers, so %s cannot have %+q; printable ASCII without \" and \\ is allowed", quote(name), name[i:i+size])
			return ""
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

// window is the time that a limit counts over.
type window struct {
	length     time.Duration
	calendar   *algorithm.Calendar
	unit       int32 // as the protocol shows it
	multiplier uint32
}

// readWindow reads unit and unit_multiplier, or window, and the calendar.
func readWindow(at *value, fields map[string]*value) (window, bool) {
	calendar, ok := readCalendar(fields)
	if !ok {
		return window{}, false
	}
	if fields["window"] != nil {
		return readDuration(fields)
	}
	if fields["unit"] == nil {
		at.missing("unit is missing; one of %s, or window with a duration as in 30s", strings.Join(unitNames(), ", "))
		return window{}, false
	}
	name, ok := fields["unit"].anyCase("a unit", unitNames())
	if !ok {
		return window{}, false
	}
	u := unitByName(name)
	w := window{length: u.length, unit: u.number, multiplier: 1}
	if calendar {
		return w, w.readZone(u, fields)
	}
	if at := fields["unit_multiplier"]; at != nil {
		n, ok := at.whole(1, uint64(algorithm.MaxWindow/u.length))
		w.length, w.multiplier = time.Duration(n)*u.length, uint32(n)
		return w, ok
	}
	return w, true
}

func unitNames() []string {
	names := make([]string, len(units))
	for i, u := range units {
		names[i] = u.name
	}
	return names
}

// readDuration reads a window that is no unit.
func readDuration(fields map[string]*value) (window, bool) {
	at, good := fields["window"], true
	for _, name := range []string{"unit", "unit_multiplier"} {
		if field := fields[name]; field != nil {
			field.errorf("a limit has a unit or a window, not both")
			good = false
		}
	}
	const allowed = "a duration from 1ms to 876000h, as in 500ms, 30s, 15m, 36h"
	if at.node.ShortTag() == intTag {
		at.errorf("%s has no unit; %s", at.what(), allowed)
		return window{}, false
	}
	text, ok := at.text()
	if !ok {
		return window{}, false
	}
	length, err := time.ParseDuration(text)
	if err != nil || length < algorithm.MinWindow || length > algorithm.MaxWindow {
		at.errorf("%s is not %s", quote(text), allowed)
		return window{}, false
	}
	w := window{length: length}
	w.unit, w.multiplier = protocolWindow(length)
	return w, good
}

// readCalendar reads whether the window follows the calendar, and what that
// rules out.
func readCalendar(fields map[string]*value) (calendar, good bool) {
	good = true
	if at := fields["calendar"]; at != nil {
		calendar, good = at.boolean()
	}
	if at := fields["time_zone"]; at != nil && !calendar && good {
		at.errorf("only a limit with calendar: true has a time_zone")
		good = false
	}
	for _, name := range []string{"window", "unit_multiplier"} {
		if at := fields[name]; at != nil && calendar {
			at.errorf("a limit with calendar: true has no %s; it has a unit: hour, day, week, month, year", name)
			good = false
		}
	}
	return calendar, good
}

// readZone makes the window follow the calendar.
func (w *window) readZone(u *unit, fields map[string]*value) bool {
	if u.calendar == 0 {
		fields["calendar"].errorf("a %s does not follow the calendar; one of hour, day, week, month, year does", u.name)
		return false
	}
	w.calendar = &algorithm.Calendar{Unit: u.calendar}
	at := fields["time_zone"]
	if at == nil {
		return true
	}
	name, ok := at.text()
	if !ok {
		return false
	}
	zone, err := loadZone(name)
	if err != nil {
		at.errorf("%v", err)
		return false
	}
	w.calendar.Zone = zone
	return true
}

// loadZone returns the zone of a name of the IANA database.
func loadZone(name string) (*time.Location, error) {
	zone, err := time.LoadLocation(name)
	if err != nil || name == "" || name == "Local" {
		return nil, fmt.Errorf("%s is not a time zone; a name of the IANA database is, as in Europe/Paris or UTC", quote(name))
	}
	return zone, nil
}
