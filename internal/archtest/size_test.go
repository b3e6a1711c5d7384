package archtest

import (
	"go/ast"
	"strings"
	"testing"
)

// Past these a reader loses the thread: look for a second subject.
const (
	longFile     = 500
	longFunction = 60
)

// reason begins the sentence, in the comment of a function, that says why it is long.
const reason = "Long because "

// A file has one subject.
func TestFilesAreShort(t *testing.T) {
	for _, s := range sources(t) {
		if n := s.set.File(s.file.Pos()).LineCount(); n > longFile {
			t.Errorf("%s has %d lines; past %d look for a second subject", s.path, n, longFile)
		}
	}
}

// A function fits on a screen, or says why not.
func TestFunctionsFitOnAScreen(t *testing.T) {
	for _, s := range sources(t) {
		if s.test {
			continue // a table of cases may be long
		}
		for _, decl := range s.file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || s.lines(f) <= longFunction || strings.Contains(strings.ReplaceAll(f.Doc.Text(), "\n", " "), reason) {
				continue
			}
			t.Errorf("%s: %s has %d lines; past %d its comment says %q and why", s.at(f), f.Name.Name, s.lines(f), longFunction, reason)
		}
	}
}
