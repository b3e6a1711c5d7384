package algorithm

import (
	"math/rand/v2"
	"testing"
	"time"
	_ "time/tzdata"
)

func location(t testing.TB, name string) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

func instant(t testing.TB, text string) int64 {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return at.UnixMicro()
}

func TestCalendarWindows(t *testing.T) {
	for _, row := range []struct {
		unit       CalendarUnit
		zone       string
		now        string
		begin, end string
	}{
		{CalendarWeek, "UTC", "2027-02-17T12:00:00Z", "2027-02-15T00:00:00Z", "2027-02-22T00:00:00Z"},
		{CalendarMonth, "UTC", "2027-02-17T12:00:00Z", "2027-02-01T00:00:00Z", "2027-03-01T00:00:00Z"},
		{CalendarYear, "UTC", "2027-02-17T12:00:00Z", "2027-01-01T00:00:00Z", "2028-01-01T00:00:00Z"},
		{CalendarMonth, "UTC", "2027-02-28T23:59:59.999999Z", "2027-02-01T00:00:00Z", "2027-03-01T00:00:00Z"},
		{CalendarMonth, "UTC", "2027-03-01T00:00:00Z", "2027-03-01T00:00:00Z", "2027-04-01T00:00:00Z"},
		{CalendarWeek, "UTC", "2027-02-21T23:59:59Z", "2027-02-15T00:00:00Z", "2027-02-22T00:00:00Z"}, // a Sunday

		// Days of 23 and 25 hours.
		{CalendarDay, "America/New_York", "2027-03-14T06:00:00Z", "2027-03-14T00:00:00-05:00", "2027-03-15T00:00:00-04:00"},
		{CalendarDay, "America/New_York", "2027-11-07T12:00:00Z", "2027-11-07T00:00:00-04:00", "2027-11-08T00:00:00-05:00"},
		{CalendarMonth, "Europe/Paris", "2027-03-31T12:00:00Z", "2027-03-01T00:00:00+01:00", "2027-04-01T00:00:00+02:00"},

		// Midnight is skipped: the day begins at 01:00.
		{CalendarDay, "America/Sao_Paulo", "2018-11-04T12:00:00Z", "2018-11-04T01:00:00-02:00", "2018-11-05T00:00:00-02:00"},
		{CalendarDay, "America/Sao_Paulo", "2018-11-03T12:00:00Z", "2018-11-03T00:00:00-03:00", "2018-11-04T01:00:00-02:00"},
		{CalendarDay, "Asia/Beirut", "2022-03-27T12:00:00Z", "2022-03-27T01:00:00+03:00", "2022-03-28T00:00:00+03:00"},
		{CalendarDay, "Asia/Beirut", "2023-03-26T12:00:00Z", "2023-03-26T01:00:00+03:00", "2023-03-27T00:00:00+03:00"},

		// Midnight comes twice: the day begins at the first.
		{CalendarDay, "America/Havana", "2018-11-04T12:00:00Z", "2018-11-04T00:00:00-04:00", "2018-11-05T00:00:00-05:00"},
		{CalendarDay, "America/Havana", "2018-11-03T12:00:00Z", "2018-11-03T00:00:00-04:00", "2018-11-04T00:00:00-04:00"},
		// The hour before midnight comes twice: the day ends at the second.
		{CalendarDay, "America/Sao_Paulo", "2018-02-18T02:30:00Z", "2018-02-17T00:00:00-02:00", "2018-02-18T00:00:00-03:00"},
		// One minute of the next day is taken back; it belongs to the old one.
		{CalendarDay, "America/Goose_Bay", "2010-11-07T03:00:30Z", "2010-11-06T00:00:00-03:00", "2010-11-07T00:00:00-04:00"},
		{CalendarDay, "America/Goose_Bay", "2010-11-07T03:30:00Z", "2010-11-06T00:00:00-03:00", "2010-11-07T00:00:00-04:00"},
		// A whole day is skipped.
		{CalendarDay, "Pacific/Apia", "2011-12-29T12:00:00Z", "2011-12-29T00:00:00-10:00", "2011-12-31T00:00:00+14:00"},

		// The end of a leap year, where time.ZoneBounds is wrong.
		{CalendarDay, "America/New_York", "2028-12-31T23:00:00Z", "2028-12-31T00:00:00-05:00", "2029-01-01T00:00:00-05:00"},
		{CalendarHour, "America/St_Johns", "2029-01-01T00:10:00Z", "2028-12-31T23:30:00Z", "2029-01-01T00:30:00Z"},

		// An hour that comes twice is two windows; a skipped one is none.
		{CalendarHour, "Europe/Paris", "2027-10-31T00:30:00Z", "2027-10-31T00:00:00Z", "2027-10-31T01:00:00Z"},
		{CalendarHour, "Europe/Paris", "2027-10-31T01:30:00Z", "2027-10-31T01:00:00Z", "2027-10-31T02:00:00Z"},
		{CalendarHour, "Asia/Kolkata", "2027-10-31T00:45:00Z", "2027-10-31T00:30:00Z", "2027-10-31T01:30:00Z"},
		// The clocks change by half an hour.
		{CalendarHour, "Australia/Lord_Howe", "2027-04-03T14:45:00Z", "2027-04-03T14:00:00Z", "2027-04-03T15:00:00Z"},
		{CalendarHour, "Australia/Lord_Howe", "2027-04-03T15:15:00Z", "2027-04-03T15:00:00Z", "2027-04-03T15:30:00Z"},
		{CalendarHour, "Australia/Lord_Howe", "2027-04-03T15:45:00Z", "2027-04-03T15:30:00Z", "2027-04-03T16:30:00Z"},
	} {
		c := &Calendar{row.unit, location(t, row.zone)}
		begin, end := c.Window(instant(t, row.now))
		if begin != instant(t, row.begin) || end != instant(t, row.end) {
			t.Errorf("unit %d in %s at %s: got %s to %s, want %s to %s", row.unit, row.zone, row.now,
				time.UnixMicro(begin).In(c.Zone), time.UnixMicro(end).In(c.Zone), row.begin, row.end)
		}
	}
}

// TestCalendarWindowsPartitionTime walks through the windows of every unit: no
// instant is in two or in none, whatever the clocks of a zone did.
func TestCalendarWindowsPartitionTime(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, name := range []string{
		"UTC", "America/New_York", "America/Sao_Paulo", "Asia/Beirut", "America/Havana", "America/Goose_Bay",
		"Pacific/Apia", "Pacific/Kwajalein", "Australia/Lord_Howe", "Asia/Kathmandu", "Africa/Casablanca",
		"Antarctica/Troll", "Asia/Tehran", "America/St_Johns", "Africa/Monrovia", "Europe/Dublin",
	} {
		zone := location(t, name)
		for unit := CalendarHour; unit <= CalendarYear; unit++ {
			c := &Calendar{unit, zone}
			for range 20 {
				now := instant(t, "1965-01-01T00:00:00Z") + random.Int64N(135*365*86400)*1e6
				for range 30 {
					begin, end := c.Window(now)
					if now < begin || now >= end {
						t.Fatalf("unit %d in %s: %s is not in its window %s to %s", unit, name, time.UnixMicro(now).In(zone),
							time.UnixMicro(begin).In(zone), time.UnixMicro(end).In(zone))
					}
					for _, same := range []int64{begin, begin + random.Int64N(end-begin), end - 1} {
						if b, e := c.Window(same); b != begin || e != end {
							t.Fatalf("unit %d in %s: %s and %s are in one window but have the windows %s to %s and %s to %s", unit, name,
								time.UnixMicro(now).In(zone), time.UnixMicro(same).In(zone),
								time.UnixMicro(begin).In(zone), time.UnixMicro(end).In(zone), time.UnixMicro(b).In(zone), time.UnixMicro(e).In(zone))
						}
					}
					if b, _ := c.Window(end); b != end {
						t.Fatalf("unit %d in %s: a window ends at %s and the next begins at %s", unit, name,
							time.UnixMicro(end).In(zone), time.UnixMicro(b).In(zone))
					}
					now = end
				}
			}
		}
	}
}

func BenchmarkCalendarWindow(b *testing.B) {
	c := &Calendar{CalendarDay, location(b, "Europe/Paris")}
	now := instant(b, "2027-02-17T12:00:00Z")
	for b.Loop() {
		c.Window(now)
	}
}
