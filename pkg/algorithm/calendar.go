package algorithm

import (
	"fmt"
	"time"
)

// CalendarUnit is the length of a calendar window.
type CalendarUnit uint8

// The units that a calendar window may have.
const (
	CalendarHour CalendarUnit = iota + 1
	CalendarDay
	CalendarWeek // from Monday, ISO 8601
	CalendarMonth
	CalendarYear
)

// Calendar makes a fixed window follow the calendar of a time zone, so that a
// day has 23, 24 or 25 hours. It is immutable.
type Calendar struct {
	Unit CalendarUnit
	Zone *time.Location // nil is UTC
}

// Window returns the bounds of the window that holds the instant now:
// begin ≤ now < end, all in microseconds since the epoch. Every instant is in
// exactly one window, whatever the clocks of the zone do.
func (c *Calendar) Window(now int64) (begin, end int64) {
	zone := c.Zone
	if zone == nil {
		zone = time.UTC
	}
	at := time.UnixMicro(now).In(zone)
	if c.Unit == CalendarHour {
		return hour(at)
	}
	begin, end = c.start(at, 0), c.start(at, 1)
	// Clocks that go back over midnight return to a day that had ended, by
	// its date; here it ends but once, at the last midnight.
	for n := -1; now < begin; n-- {
		begin, end = c.start(at, n), begin
	}
	return begin, end
}

// start returns the first instant of the nth day, week, month or year after
// that of the date which at shows.
func (c *Calendar) start(at time.Time, n int) int64 {
	year, month, day := at.Date()
	switch c.Unit {
	case CalendarDay:
		day += n
	case CalendarWeek:
		day += 7*n - (int(at.Weekday())+6)%7
	case CalendarMonth:
		month, day = month+time.Month(n), 1
	case CalendarYear:
		year, month, day = year+n, time.January, 1
	default:
		panic(fmt.Sprintf("algorithm: calendar unit %d", c.Unit))
	}
	return startOfDay(year, month, day, at.Location())
}

// startOfDay returns the instant from which on all dates are that of the day
// or later. Where the clocks skip midnight, it is the instant of the change;
// where they show midnight twice, the first, unless they show the evening
// before in between.
func startOfDay(year int, month time.Month, day int, zone *time.Location) int64 {
	const widest = 24 * time.Hour // no zone is as far from UTC
	wall := time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
	start := wall
	for at := wall.Add(-widest).In(zone); ; {
		// From at until change the clocks are offset from UTC, and show
		// midnight at the instant midnight, if that lies in between.
		change := nextChange(at)
		midnight := wall.Add(-time.Duration(offset(at)) * time.Second)
		if at.Before(midnight) {
			start = midnight
			if !change.IsZero() && change.Before(midnight) {
				start = change
			}
		}
		if change.IsZero() || change.Sub(wall) > widest {
			return start.UnixMicro()
		}
		at = change
	}
}

// nextChange is when the clocks may change next; zero is never.
func nextChange(at time.Time) time.Time {
	_, change := at.ZoneBounds()
	if !change.IsZero() && !change.After(at) {
		// On the last day of a leap year ZoneBounds answers with its
		// beginning. No zone changes its clocks on that day.
		return at.Truncate(24 * time.Hour).Add(24 * time.Hour)
	}
	return change
}

// hour returns the bounds of the hour on the clock. An hour that the clocks
// repeat is two windows, and one that they break off ends there.
func hour(at time.Time) (begin, end int64) {
	into := time.Duration(at.Minute())*time.Minute + time.Duration(at.Second())*time.Second + time.Duration(at.Nanosecond())
	first := at.Add(-into)
	next := first.Add(time.Hour)
	since, until := at.ZoneBounds()
	if offset(first) != offset(at) {
		first = since
	}
	if offset(next.Add(-1)) != offset(at) {
		next = until
	}
	return first.UnixMicro(), next.UnixMicro()
}

// offset is what the clocks add to UTC, in seconds.
func offset(at time.Time) int {
	_, seconds := at.Zone()
	return seconds
}
