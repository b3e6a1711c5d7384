package descriptors

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// page is the documentation of policy files.
const page = "../../docs/policies.md"

// TestPageIsUpToDate compares two sections of the page with what the code says.
func TestPageIsUpToDate(t *testing.T) {
	for heading, want := range map[string]string{
		"## Every field":          fieldTables(),
		"### Calendar by example": calendarTable(t),
	} {
		raw, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		before, rest, found := strings.Cut(string(raw), "\n"+heading+"\n")
		if !found {
			t.Fatalf("%s has no section %q", page, heading)
		}
		level, _, _ := strings.Cut(heading, " ")
		got, after := rest, ""
		for _, next := range []string{level + " ", "## "} {
			if i := strings.Index(got, "\n"+next); i >= 0 {
				got, after = got[:i], got[i:]+after
			}
		}
		if got == "\n"+want {
			continue
		}
		if !*update {
			t.Errorf("%q in %s is not what the code says; run go test ./pkg/descriptors -update", heading, page)
			continue
		}
		if err := os.WriteFile(page, []byte(before+"\n"+heading+"\n\n"+want+after), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// fieldTables is a table for each shape.
func fieldTables() string {
	var b strings.Builder
	b.WriteString("These tables are made from `pkg/descriptors/language.go`, as are the messages about unknown fields.\n")
	titles := map[*shape]string{
		&policyShape:     "A policy: the top of a document",
		&defaultsShape:   "`defaults`",
		&descriptorShape: "A descriptor: an item of `descriptors`",
		&limitShape:      "A rate limit: `rate_limit`, or an item of `rate_limits`",
		&replacedShape:   "An item of `replaces`",
	}
	for _, s := range shapes {
		fmt.Fprintf(&b, "\n### %s\n\n| field | meaning | allowed | when absent |\n| --- | --- | --- | --- |\n", titles[s])
		for _, f := range s.fields {
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", f.name, f.meaning, f.allowed, f.absent)
		}
	}
	return b.String()
}

// calendarTable shows the windows that hold some instants.
func calendarTable(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("| limit | an instant | its window | hours |\n| --- | --- | --- | --- |\n")
	for _, row := range []struct{ limit, zone, at string }{
		{"unit: month", "UTC", "2026-02-15T12:00:00Z"},
		{"unit: month, calendar: true", "UTC", "2026-02-15T12:00:00Z"},
		{"unit: week", "UTC", "2026-02-15T12:00:00Z"},
		{"unit: week, calendar: true", "UTC", "2026-02-15T12:00:00Z"},
		{"unit: day, calendar: true, time_zone: Europe/Paris", "Europe/Paris", "2026-03-29T12:00:00+02:00"},
		{"unit: day, calendar: true, time_zone: Europe/Paris", "Europe/Paris", "2026-10-25T12:00:00+01:00"},
		{"unit: hour, calendar: true, time_zone: Europe/Paris", "Europe/Paris", "2026-10-25T02:30:00+02:00"},
		{"unit: hour, calendar: true, time_zone: Europe/Paris", "Europe/Paris", "2026-10-25T02:30:00+01:00"},
		{"unit: hour, calendar: true, time_zone: Asia/Kolkata", "Asia/Kolkata", "2026-02-15T12:10:00+05:30"},
		{"unit: hour", "Asia/Kolkata", "2026-02-15T12:10:00+05:30"},
		{"unit: year, calendar: true, time_zone: America/New_York", "America/New_York", "2028-02-15T12:00:00-05:00"},
	} {
		zone, err := loadZone(row.zone)
		if err != nil {
			t.Fatal(err)
		}
		at, err := time.Parse(time.RFC3339, row.at)
		if err != nil {
			t.Fatal(err)
		}
		begin, end := windowOf(t, row.limit, at)
		const shown = "Mon 2 Jan 2006 15:04 MST"
		fmt.Fprintf(&b, "| `%s` | %s | %s – %s | %v |\n", row.limit, at.In(zone).Format(shown),
			begin.In(zone).Format(shown), end.In(zone).Format(shown), end.Sub(begin).Hours())
	}
	return b.String()
}

// windowOf returns the bounds of the window of a limit, written as in a policy
// file, that holds an instant.
func windowOf(t *testing.T, limit string, at time.Time) (begin, end time.Time) {
	t.Helper()
	text := "domain: t\ndescriptors: [{key: k, rate_limit: {requests_per_unit: 1, " + limit + "}}]\n"
	rules, err := Compile([]File{{Name: "page.yaml", Text: []byte(text)}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var state algorithm.State
	var decision [1]algorithm.Decision
	asks := []algorithm.Ask{{Limit: rules.Limits()[0].Limit, Hits: 1}}
	algorithm.Decide(at.UnixMicro(), asks, []*algorithm.State{&state}, decision[:])
	return time.UnixMicro(state.At), at.Add(decision[0].Reset)
}

// TestEveryFieldIsTried wants the file with every field to have them all.
func TestEveryFieldIsTried(t *testing.T) {
	text, err := os.ReadFile("testdata/good/every_field.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range shapes {
		for _, name := range s.names() {
			if !strings.Contains(string(text), name+":") {
				t.Errorf("%s of %s is not in every_field.yaml", name, s.name)
			}
		}
	}
}
