package faults

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
)

const (
	published = "testdata/run.json" // the run of which the page tells
	page      = "../../docs/reliability.md"
)

// row is what a run with a fault has shown.
type row struct {
	Fault        string
	Calls        int
	ByPolicy     int   // answered by a failure policy, an error among them
	SlowestMs    int64 // the slowest answer
	Over         int64 // admitted beyond the limits
	OverBound    int64
	Unheard      int64 // charged and not admitted
	UnheardBound int64
	RecoveredMs  int64 // from the end of the fault to the last answer that was not exact
}

func (v *verdict) row(fault string) row {
	return row{
		Fault: fault, Calls: v.calls, ByPolicy: v.failed + v.degraded, SlowestMs: v.slowest.Milliseconds(),
		Over: v.over, OverBound: v.overBound, Unheard: v.phantom, UnheardBound: v.phantomBound, RecoveredMs: v.recovered.Milliseconds(),
	}
}

// table tells of runs as the page does.
func table(rows []row) string {
	var b strings.Builder
	fmt.Fprintln(&b, "| fault | calls | answered by on_store_error | slowest answer | admitted beyond the limits (bound) | charged, not admitted (bound) | exact again after |")
	fmt.Fprintln(&b, "| --- | --- | --- | --- | --- | --- | --- |")
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %d | %d | %d ms | %d (%d) | %d (%d) | %d ms |\n",
			r.Fault, r.Calls, r.ByPolicy, r.SlowestMs, r.Over, r.OverBound, r.Unheard, r.UnheardBound, r.RecoveredMs)
	}
	return b.String()
}

// The page shows the run in testdata, and no figure that was written by hand.
func TestThePageShowsTheRun(t *testing.T) {
	data, err := os.ReadFile(published)
	if err != nil {
		t.Fatal(err)
	}
	var rows []row
	if err := json.Unmarshal(data, &rows); err != nil {
		t.Fatal(err)
	}
	if len(rows) != len(scenarios) {
		t.Errorf("%s holds %d faults, there are %d: record a run anew", published, len(rows), len(scenarios))
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, after := around(t, string(text), table(nil))
	switch want := before + table(rows) + after; {
	case *recording:
		if err := os.WriteFile(page, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	case want != string(text):
		t.Errorf("%s does not show %s: run go test ./integration/faults -run TestThePage -record, and read the difference", page, published)
	}
}

// around returns the text before and after the table that begins with these lines.
func around(t *testing.T, text, head string) (before, after string) {
	t.Helper()
	before, after, found := strings.Cut(text, head)
	if !found {
		t.Fatalf("%s has no table that begins with\n%s", page, head)
	}
	for strings.HasPrefix(after, "|") {
		_, after, _ = strings.Cut(after, "\n")
	}
	return before, after
}

func write(t *testing.T, path string, rows []row) {
	t.Helper()
	data, err := json.MarshalIndent(rows, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(data, '\n'), 0o600); err != nil {
		t.Fatal(err)
	}
}
