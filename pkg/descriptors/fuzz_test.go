package descriptors

import (
	"errors"
	"strings"
	"testing"
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
