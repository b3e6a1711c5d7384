package descriptors

import (
	"bytes"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// parsed returns the documents of files as policies that did not come as text.
// ok is false where a file is no YAML, or has aliases.
func parsed(files []File) (roots []File, ok bool) {
	for _, file := range files {
		decoder := yaml.NewDecoder(bytes.NewReader(file.Text))
		for {
			var document yaml.Node
			if err := decoder.Decode(&document); err != nil {
				break
			}
			if !placeless(&document) {
				return nil, false
			}
			if document.Content[0].ShortTag() == nullTag {
				continue // an empty document
			}
			root := document.Content[0]
			roots = append(roots, File{Name: file.Name, Text: file.Text, Parse: func([]byte) (*yaml.Node, error) { return root, nil }})
		}
	}
	return roots, len(roots) > 0
}

// placeless takes away where the nodes stood. It reports false for an alias.
func placeless(node *yaml.Node) bool {
	node.Line, node.Column = 0, 0
	return node.Kind != yaml.AliasNode && !slices.ContainsFunc(node.Content, func(n *yaml.Node) bool { return !placeless(n) })
}

// A policy means the same whether it comes as YAML or not.
func TestRootsMeanWhatFilesMean(t *testing.T) {
	lines := regexp.MustCompile(`(?m)^(\S+):\d+:`)
	compared := 0
	for name, files := range cases(t, "good") {
		roots, ok := parsed(files)
		if !ok {
			continue
		}
		compared++
		want, err := Compile(files, Options{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := Compile(roots, Options{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got, want := lines.ReplaceAllString(describe(got), "$1"), lines.ReplaceAllString(describe(want), "$1"); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
		}
	}
	if compared < 3 {
		t.Errorf("only %d files could be compared", compared)
	}
}

// The checks are the same, too, but for those of what only a person would write
// by mistake. The place is the name and the path.
func TestRootsAreCheckedAsFilesAre(t *testing.T) {
	compared := 0
	for name, files := range cases(t, "bad") {
		roots, ok := parsed(files)
		if !ok {
			continue
		}
		_, asText := Compile(files, Options{})
		_, asRoot := Compile(roots, Options{})
		if strings.HasPrefix(name, "unreachable") {
			if asRoot != nil {
				t.Errorf("%s: %v", name, asRoot)
			}
			continue
		}
		var want, got *ErrorList
		if !errors.As(asText, &want) || !errors.As(asRoot, &got) {
			t.Errorf("%s: as text %v, as root %v", name, asText, asRoot)
			continue
		}
		compared++
		for _, e := range got.Errors {
			if e.Line != 0 || e.Column != 0 || e.File == "" {
				t.Errorf("%s: %+v has a line, or no name", name, e)
			}
		}
	}
	if compared < 15 {
		t.Errorf("only %d files could be compared", compared)
	}
}

// What cannot be parsed is told with all else that is wrong.
func TestFaultsOfParsing(t *testing.T) {
	_, err := Compile([]File{
		{Name: "a", Parse: func([]byte) (*yaml.Node, error) { return nil, errors.New("is torn") }},
		{Name: "b", Parse: func([]byte) (*yaml.Node, error) { return nil, &Error{Path: "x[0].y", Problem: "is odd"} }},
		{Name: "c.yaml", Text: []byte("domain: ''")},
	}, Options{})
	if want := "a: is torn\nb: x[0].y: is odd\nc.yaml:1:9: domain: the domain must not be empty"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestErrorsOfRootsTellTheirPaths(t *testing.T) {
	roots, ok := parsed([]File{{Name: "listener", Text: []byte(`
domain: d
descriptors:
  - {key: a, rate_limit: {requests_per_unit: 1}}
  - {key: b, rate_limit: {requests_per_unit: 1}}
  - {key: a}
  - {}
  - {key: c, value: x, share_threshold: true}
`)}})
	if !ok {
		t.Fatal("not parsed")
	}
	_, err := Compile(roots, Options{})
	if err == nil {
		t.Fatal("compiled")
	}
	golden(t, "roots", err.Error()+"\n")
}
