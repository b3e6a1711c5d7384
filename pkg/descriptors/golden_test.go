package descriptors

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	_ "time/tzdata"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares a text with testdata/NAME.txt.
func golden(t *testing.T, name, got string) {
	t.Helper()
	name = filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (go test -update writes it anew):\n%s", name, got)
	}
}

// cases lists testdata/FOLDER: a file is a case, and so is a directory of
// files.
func cases(t testing.TB, folder string) map[string][]File {
	t.Helper()
	found := make(map[string][]File)
	entries, err := os.ReadDir(filepath.Join("testdata", folder))
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		path := filepath.Join("testdata", folder, entry.Name())
		name, isYAML := strings.CutSuffix(entry.Name(), ".yaml")
		switch {
		case entry.IsDir():
			files, err := ReadDir(path, 0)
			if err != nil {
				t.Fatal(err)
			}
			found[name] = files
		case isYAML:
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			found[name] = []File{{Name: entry.Name(), Text: text}}
		}
	}
	return found
}

func TestBadFiles(t *testing.T) {
	for name, files := range cases(t, "bad") {
		t.Run(name, func(t *testing.T) {
			rules, err := Compile(files, Options{})
			var list *ErrorList
			if rules != nil || !errors.As(err, &list) {
				t.Fatalf("got rules %v and error %v, want an *ErrorList", rules, err)
			}
			golden(t, "bad/"+name, err.Error()+"\n")
		})
	}
}

func TestGoodFiles(t *testing.T) {
	for name, files := range cases(t, "good") {
		t.Run(name, func(t *testing.T) {
			rules, err := Compile(files, Options{})
			if err != nil {
				t.Fatal(err)
			}
			golden(t, "good/"+name, describe(rules))
		})
	}
}

// describe prints all that rules say.
func describe(r *Rules) string {
	var b strings.Builder
	for _, d := range r.Domains() {
		counting := "precise"
		if d.Counting == algorithm.Reference {
			counting = "reference"
		}
		fmt.Fprintf(&b, "domain %q, counting %s, overrides when the store fails: %s%s\n", d.Name, counting, d.overrideOnFailed, priority(d.overridePriority))
		for _, rule := range d.Rules() {
			describeRule(&b, rule)
		}
	}
	return b.String()
}

// priority is empty for the default.
func priority(p algorithm.Priority) string {
	if p == algorithm.PriorityDefault {
		return ""
	}
	return ", priority " + p.String()
}

func describeRule(b *strings.Builder, r *Rule) {
	fmt.Fprintf(b, "\n%s:%d:", r.File, r.Line)
	for _, e := range r.Path {
		fmt.Fprintf(b, " (%q", e.Key)
		if e.Value != "" {
			fmt.Fprintf(b, " = %q", e.Value)
		}
		if e.Share {
			b.WriteString(" shared")
		}
		b.WriteString(")")
	}
	b.WriteString("\n")
	if r.Unlimited {
		b.WriteString("    unlimited\n")
	}
	if r.Name != "" {
		fmt.Fprintf(b, "    name %s\n", r.Name)
	}
	if len(r.Replaces) > 0 {
		fmt.Fprintf(b, "    replaces %s, numbers %v\n", strings.Join(r.Replaces, ", "), r.replaces)
	}
	if r.Metadata != nil {
		text, _ := json.Marshal(r.Metadata.AsMap())
		fmt.Fprintf(b, "    metadata %s\n", text)
	}
	for _, l := range r.Limits {
		describeLimit(b, l)
	}
}

func describeLimit(b *strings.Builder, l *Limit) {
	fmt.Fprintf(b, "    %d %s\n", l.Index, l.ID)
	a := l.Limit
	fmt.Fprintf(b, "        %d (%d at once) per %v, %s, shown as unit %d × %d", a.Requests, a.Capacity, a.Window, a.Algorithm.Name, l.Unit, l.Multiplier)
	if a.Calendar != nil {
		fmt.Fprintf(b, ", calendar %s", calendarIdentity(a.Calendar))
	}
	for _, word := range []struct {
		text string
		set  bool
	}{{"overdraw", a.Overdraw}, {"shadow", l.Shadow}, {"quota", l.Quota}, {"shared by all regions", l.shared}, {"region " + l.Region, l.Region != ""}, {fmt.Sprint("replaced as ", l.replaced), l.replaced >= 0}} {
		if word.set {
			fmt.Fprintf(b, ", %s", word.text)
		}
	}
	fmt.Fprintf(b, "\n        name %q, when the store fails: %s%s, key suffix %s\n", l.Name, l.OnStoreError, priority(l.Priority), l.suffix[:])
}

// Every message is about one line, and a reader can find the place.
func TestErrorsAreOneLineEach(t *testing.T) {
	for name, files := range cases(t, "bad") {
		_, err := Compile(files, Options{})
		var list *ErrorList
		if !errors.As(err, &list) {
			t.Fatal(name, err)
		}
		for _, e := range list.Errors {
			text := e.Error()
			if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == '\ufffd' }) {
				t.Errorf("%s: %q is not one printable line", name, text)
			}
			if !slices.ContainsFunc(files, func(f File) bool { return strings.HasPrefix(text, f.Name+":") }) {
				t.Errorf("%s: %q names no file", name, text)
			}
		}
	}
}
