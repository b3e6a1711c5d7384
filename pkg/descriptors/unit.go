package descriptors

import (
	"time"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// unit is a length of time that has a name in policy files and a number in
// the protocol.
type unit struct {
	name     string
	number   int32
	length   time.Duration
	calendar algorithm.CalendarUnit // 0: a calendar does not know it
}

// units are all units, from the shortest. Without a calendar a month has 30
// days and a year 365, and every window begins at a multiple of its length
// since 1970, as envoyproxy/ratelimit has it.
var units = [...]unit{
	{"second", 1, time.Second, 0},
	{"minute", 2, time.Minute, 0},
	{"hour", 3, time.Hour, algorithm.CalendarHour},
	{"day", 4, 24 * time.Hour, algorithm.CalendarDay},
	{"week", 7, 7 * 24 * time.Hour, algorithm.CalendarWeek},
	{"month", 5, 30 * 24 * time.Hour, algorithm.CalendarMonth},
	{"year", 6, 365 * 24 * time.Hour, algorithm.CalendarYear},
}

// unitByNumber returns nil for a number that is no unit's.
func unitByNumber(number int32) *unit {
	for i := range units {
		if units[i].number == number {
			return &units[i]
		}
	}
	return nil
}

// unitByName returns nil for a name that is no unit's.
func unitByName(name string) *unit {
	for i := range units {
		if units[i].name == name {
			return &units[i]
		}
	}
	return nil
}

// protocolWindow shows a window as a multiple of the longest unit up to a day
// that divides it, and as 0, 0 where none does.
func protocolWindow(window time.Duration) (number int32, multiplier uint32) {
	for i := 3; i >= 0; i-- {
		if u := units[i]; window%u.length == 0 {
			return u.number, uint32(window / u.length)
		}
	}
	return 0, 0
}
