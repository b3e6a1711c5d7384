package faults

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// lacking names in the environment of the changed program the protection that it is to lack.
const lacking = "WITHOUT"

// change takes a protection out of a source file, in a program to which WITHOUT names it: a text that must be there once, and what
// stands in its place.
type change struct{ protection, file, from, to string }

// The protections that have no setting.
const (
	breaker    = "breaker"
	probes     = "probes"
	norepeat   = "norepeat"
	forgetful  = "forgetful"
	share      = "share"
	homecoming = "homecoming"
)

var changes = []change{
	{breaker, "pkg/backend/breaker.go", "return c.ConsecutiveFailures >= tripAfter ||", `return !without("breaker") && c.ConsecutiveFailures >= tripAfter || !without("breaker") &&`},
	{breaker, "pkg/backend/shedding.go", "if s.strained() < shedUntil[0] {", `if without("breaker") || s.strained() < shedUntil[0] {`},
	{probes, "pkg/backend/breaker.go", "Timeout:      openFor,", `Timeout: max(openFor, longWithout("probes")),`},
	{norepeat, "pkg/backend/redisclient.go", "func (once) NoRetry() bool { return true }", `func (once) NoRetry() bool { return !without("norepeat") }`},
	{norepeat, "pkg/backend/redisclient.go", "MaxRetries:      -1,", `MaxRetries: -1 + int(longWithout("norepeat")/time.Minute)*4,`},
	{forgetful, "pkg/backend/knownover.go", "const maxKnown = time.Second", `var maxKnown = max(time.Second, longWithout("forgetful"))`},
	{share, "pkg/algorithm/share.go", "uint64(max(1, whole/int64(n)))", `uint64(max(1, whole/map[bool]int64{false: int64(n), true: 1}[without("share")]))`},
	{homecoming, "pkg/backend/homecoming.go", "Hits: some[i].used, Mode", `Hits: map[bool]int64{false: some[i].used}[without("homecoming")], Mode`},
}

// switches is added to each package that is changed.
const switches = `
import (
	"os"
	"time"
)

func without(protection string) bool { return os.Getenv("WITHOUT") == protection }

func longWithout(protection string) time.Duration {
	if without(protection) {
		return time.Minute
	}
	return 0
}
`

// without are runs that lack a protection. The checker must find each of them wrong, with a problem that holds a text, or it would
// prove nothing when it finds a run good.
var without = []struct {
	protection string // of the above, or in words
	scenario   string
	settings   []string
	tamper     func(*fault)
	want       string
}{
	{
		protection: "one count for all replicas", scenario: "none",
		settings: []string{"STORE=memory"},
		want:     "admitted beyond the limit of 6",
	},
	{
		protection: "a budget for every answer", scenario: "Redis stands still (SIGSTOP)",
		settings: []string{"STORE_TIMEOUT=30s"},
		want:     "more than 100ms and 250ms of room",
	},
	{
		protection: "the bound of a loss is that of the loss", scenario: "Redis is killed, and back without its data",
		tamper: func(f *fault) { f.loses = false },
		want:   "were admitted",
	},
	{protection: breaker, scenario: "the network is silent", want: "waited for a store that was known to be away"},
	{protection: probes, scenario: "the network is cut", want: "after the time to recover"},
	{protection: norepeat, scenario: "connections break in the middle of answers", want: "refused although"},
	{protection: forgetful, scenario: "Redis is killed, and back without its data", want: "refused although"},
	{protection: share, scenario: "Redis is killed, and back with its data", want: "replicas by themselves admitted"},
	{protection: homecoming, scenario: "the network is cut", want: "were not brought home"},
}

func TestTheCheckerFindsWhatIsMissing(t *testing.T) {
	program := buildChanged(t)
	for _, w := range without {
		t.Run(w.protection, func(t *testing.T) {
			t.Parallel()
			s := scenarioNamed(t, w.scenario)
			s.settings, s.tamper, s.program, s.lacks = w.settings, w.tamper, program, w.protection
			v := conclusive(t, func() *verdict { return s.run(t) }, func(v *verdict) bool { return v.problemWith(w.want) != "" })
			if problem := v.problemWith(w.want); problem != "" {
				t.Logf("of %d problems: %s", len(v.problems), problem)
				return
			}
			t.Errorf("found %d problems, none of which holds %q: %q", len(v.problems), w.want, v.problems[:min(len(v.problems), 5)])
		})
	}
}

// problemWith returns a problem that holds a text, or nothing.
func (v *verdict) problemWith(text string) string {
	for _, problem := range v.problems {
		if strings.Contains(problem, text) {
			return problem
		}
	}
	return ""
}

func scenarioNamed(t *testing.T, name string) scenario {
	t.Helper()
	for _, s := range scenarios {
		if s.name == name {
			return s
		}
	}
	t.Fatalf("there is no scenario %q", name)
	return scenario{}
}

// buildChanged builds ratelimitd with the changes, and returns the path of the program.
func buildChanged(t *testing.T) string {
	t.Helper()
	const root = "../.."
	dir, texts := t.TempDir(), map[string]string{}
	for _, c := range changes {
		path, err := filepath.Abs(filepath.Join(root, c.file))
		if err != nil {
			t.Fatal(err)
		}
		if texts[path] == "" {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			texts[path] = string(text)
			folder := filepath.Dir(path)
			texts[filepath.Join(folder, "without.go")] = "package " + filepath.Base(folder) + "\n" + switches
		}
		if n := strings.Count(texts[path], c.from); n != 1 {
			t.Fatalf("%s holds %q %d times, not once: say anew how to take this protection out", c.file, c.from, n)
		}
		texts[path] = strings.Replace(texts[path], c.from, c.to, 1)
	}
	replaced := map[string]string{}
	for path, text := range texts {
		replaced[path] = filepath.Join(dir, strconv.Itoa(len(replaced))+".go")
		if err := os.WriteFile(replaced[path], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		t.Fatal(err)
	}
	file, program := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "ratelimitd")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-overlay", file, "-o", program, root+"/cmd/ratelimitd")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return program
}
