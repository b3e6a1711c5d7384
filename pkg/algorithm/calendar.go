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
// begin ≤ now < end, all in microseconds since the epoch.
func (c *Calendar) Window(now int64) (begin, end int64) {
	zone := c.Zone
	if zone == nil {
		zone = time.UTC
	}
	at := time.UnixMicro(now).In(zone)
	year, month, day := at.Date()
	var first, next time.Time
	switch c.Unit {
	case CalendarHour:
		// An hour that the clocks repeat is two windows: no instant is
		// built from wall time, which would be ambiguous.
		into := time.Duration(at.Minute())*time.Minute + time.Duration(at.Second())*time.Second + time.Duration(at.Nanosecond())
		first = at.Add(-into)
		next = first.Add(time.Hour)
	case CalendarDay:
		first, next = startOfDay(year, month, day, zone), startOfDay(year, month, day+1, zone)
	case CalendarWeek:
		monday := day - (int(at.Weekday())+6)%7
		first, next = startOfDay(year, month, monday, zone), startOfDay(year, month, monday+7, zone)
	case CalendarMonth:
		first, next = startOfDay(year, month, 1, zone), startOfDay(year, month+1, 1, zone)
	case CalendarYear:
		first, next = startOfDay(year, 1, 1, zone), startOfDay(year+1, 1, 1, zone)
	default:
		panic(fmt.Sprintf("algorithm: calendar unit %d", c.Unit))
	}
	return first.UnixMicro(), next.UnixMicro()
}

// startOfDay returns the first instant of a day. Where the clocks skip
// midnight, that is the instant of the change; where they repeat it, the
// earlier of the two.
func startOfDay(year int, month time.Month, day int, zone *time.Location) time.Time {
	midnight := time.Date(year, month, day, 0, 0, 0, 0, zone)
	wanted := time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
	start, _ := midnight.ZoneBounds()
	switch {
	case midnight.Day() != wanted.Day():
		// Midnight does not exist and Date answered with the evening before:
		// the day begins where the new offset does.
		_, end := midnight.ZoneBounds()
		return end
	case midnight.Hour() != 0 || midnight.Minute() != 0:
		return start
	}
	// Midnight may exist twice: is the same wall time also before the change?
	if !start.IsZero() {
		_, before := start.Add(-time.Second).Zone()
		_, after := midnight.Zone()
		earlier := midnight.Add(-time.Duration(before-after) * time.Second)
		if before > after && earlier.Before(start) && earlier.Day() == midnight.Day() {
			return earlier
		}
	}
	return midnight
}
