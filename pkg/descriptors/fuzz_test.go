package descriptors

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// FuzzPolicy feeds anything to Compile. It never panics, an error says where,
// and an accepted file compiles again to the same rules.
func FuzzPolicy(f *testing.F) {
	for _, folder := range []string{"good", "bad"} {
		for _, files := range cases(f, folder) {
			for _, file := range files {
				f.Add(file.Text)
			}
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 1<<16 {
			return
		}
		files := []File{{Name: "fuzz.yaml", Text: text}}
		rules, err := Compile(files, Options{})
		if err != nil {
			checkErrors(t, err)
			return
		}
		again, err := Compile(files, Options{})
		if err != nil {
			t.Fatalf("accepted once: %v", err)
		}
		if one, two := describe(rules), describe(again); one != two {
			t.Fatalf("first\n%s\nthen\n%s", one, two)
		}
		checkRules(t, rules)
	})
}

func checkErrors(t *testing.T, err error) {
	var list *ErrorList
	if !errors.As(err, &list) || len(list.Errors) == 0 {
		t.Fatalf("%T: %v", err, err)
	}
	for _, e := range list.Errors {
		if e.File != "fuzz.yaml" || e.Problem == "" || e.Line < 0 || e.Column < 0 {
			t.Errorf("%+v", e)
		}
		if text := e.Error(); strings.ContainsAny(text, "\r\n\x00") {
			t.Errorf("%q is more than one line", text)
		}
	}
}

// checkRules holds what every consumer relies on.
func checkRules(t *testing.T, rules *Rules) {
	ids, suffixes := make(map[string]bool), make(map[string]bool)
	for i, l := range rules.Limits() {
		if l.Index != i || l.Limit == nil || l.Rule == nil || l.Rule.Domain == nil || l.Rule.Unlimited || l.ID == "" || len(l.ID) > longestID {
			t.Errorf("%+v", l)
		}
		if strings.ContainsFunc(l.Name, func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' }) {
			t.Errorf("name %q", l.Name)
		}
		if ids[l.ID] || suffixes[string(l.suffix[:])] {
			t.Errorf("%q is not unique", l.ID)
		}
		ids[l.ID], suffixes[string(l.suffix[:])] = true, true
	}
	for _, d := range rules.Domains() {
		for _, r := range d.Rules() {
			checkReachable(t, d, r)
		}
	}
}

// checkReachable sends the path of a rule, as written, to its domain. With
// exact values the rule is the one that is chosen; no other has the same.
func checkReachable(t *testing.T, d *Domain, r *Rule) {
	var list []Entry
	for _, e := range r.Path {
		list = append(list, Entry{[]byte(e.Key), []byte(e.Value)})
	}
	got := d.Match(list)
	for _, e := range r.Path {
		if e.Value == "" {
			return // a pattern may match the empty value
		}
	}
	if got != r {
		t.Errorf("%v of %q chooses %v", r.Path, d.Name, got)
	}
	for _, l := range r.Limits {
		l.AppendKey(nil, list)
	}
}

// FuzzFiles reads and compiles a directory: the names and texts of its files
// follow each other, separated by zero bytes.
func FuzzFiles(f *testing.F) {
	f.Add("a.yaml\x00domain: t\ndescriptors: [{key: a, value: '*x*'}]\x00b/c.yml\x00domain: t\ncounting: reference\ndescriptors: [{key: a, value: 'x*'}]\x00.d.yaml\x00x")
	f.Add("a.yaml\x00" + bomb + "\x00a.yaml/b.yaml\x00domain: u")
	f.Add("a.yaml\x00domain: t\ndescriptors: " + strings.Repeat("[", 500) + "\x00b.yaml\x00domain: t\ndescriptors: " + strings.Repeat("{descriptors: [", 200))
	f.Add("a.yaml\x00domain: t\ndescriptors: &a [{key: a, descriptors: *a}]\x00b.yaml\x00<<: &b {<<: *b}")
	f.Add("a.yaml\x00domain: t\ndescriptors: [{key: a, rate_limit: {unit: hour, requests_per_unit: 0x" + strings.Repeat("f", 400) + "}}, {key: b, rate_limit: {unit: hour, requests_per_unit: 1e999}}]")
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 1<<16 {
			return
		}
		parts := strings.Split(text, "\x00")
		tree := fstest.MapFS{}
		for i := 0; i+1 < len(parts); i += 2 {
			if fs.ValidPath(parts[i]) {
				tree[parts[i]] = &fstest.MapFile{Data: []byte(parts[i+1])}
			}
		}
		files, err := ReadFS(tree, 1<<15)
		size := 0
		for _, file := range files {
			size += len(file.Text)
		}
		if err != nil || size > 1<<15 {
			if size > 1<<15 {
				t.Errorf("%d bytes were read", size)
			}
			return
		}
		for _, counting := range []algorithm.Counting{algorithm.Precise, algorithm.Reference} {
			rules, err := Compile(files, Options{Counting: counting})
			if err == nil {
				checkRules(t, rules)
				continue
			}
			var list *ErrorList
			if !errors.As(err, &list) || len(list.Errors) == 0 || len(list.Error()) > 1<<20 {
				t.Fatalf("%T of %d bytes", err, len(err.Error()))
			}
		}
	})
}

// bomb is a file whose aliases double what it says thirty times.
var bomb = func() string {
	var b strings.Builder
	b.WriteString("domain: t\nx0: &x0 [a]\n")
	for i := range 30 {
		fmt.Fprintf(&b, "x%d: &x%d [*x%d, *x%d]\n", i+1, i+1, i, i)
	}
	b.WriteString("descriptors: *x30\n")
	return b.String()
}()

// FuzzMatch sends anything to a tree with every kind of node.
func FuzzMatch(f *testing.F) {
	precise := compile(f, matchPolicy("precise")).Domains()[0]
	reference := compile(f, matchPolicy("reference")).Domains()[0]
	f.Add([]byte("a"), []byte("x"), []byte("b"), []byte("y"))
	f.Add([]byte("a"), []byte("/api/v1/x"), []byte("b"), []byte("*"))
	f.Fuzz(func(t *testing.T, k1, v1, k2, v2 []byte) {
		list := []Entry{{k1, v1}, {k2, v2}}
		for _, d := range []*Domain{precise, reference} {
			for n := range len(list) + 1 {
				r := d.Match(list[:n])
				if r != nil && len(r.Path) != n {
					t.Errorf("%d entries choose %v", n, r.Path)
				}
				if r != nil && r.Limits == nil == (n == 2) {
					t.Errorf("%q chooses %v", list[:n], r.Path)
				}
			}
		}
	})
}

func matchPolicy(counting string) string {
	const level = `[{key: b, value: y, rate_limit: &l {unit: hour, requests_per_unit: 1}}, {key: b, value: "y*z", rate_limit: *l}, {key: b, rate_limit: *l}]`
	return "domain: t\ncounting: " + counting + `
descriptors:
  - {key: a, value: x, descriptors: ` + level + `}
  - {key: a, value: "/api/*", descriptors: ` + level + `}
  - {key: a, value: "*/x", descriptors: ` + level + `}
  - {key: a, value: "*x*y*", descriptors: ` + level + `}
  - {key: a, descriptors: ` + level + `}
`
}
