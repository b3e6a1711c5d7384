package descriptors

import (
	"fmt"
	"time"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

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
		at.missing("unit is missing; %s, or window with a duration as in 30s", oneOf(unitNames()))
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
	if at.node.ShortTag() == intTag {
		at.errorf("%s has no unit; %s", at.what(), durations)
		return window{}, false
	}
	text, ok := at.text()
	if !ok {
		return window{}, false
	}
	length, err := time.ParseDuration(text)
	if err != nil || length < algorithm.MinWindow || length > algorithm.MaxWindow {
		at.errorf("%s is not %s", quote(text), durations)
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
