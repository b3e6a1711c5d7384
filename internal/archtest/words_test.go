package archtest

import (
	"bytes"
	"go/ast"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// No test is skipped: one that cannot run fails, and says what is missing.
func TestNothingSkips(t *testing.T) {
	for _, s := range sources(t) {
		ast.Inspect(s.file, func(node ast.Node) bool {
			if selector, ok := node.(*ast.SelectorExpr); ok {
				switch selector.Sel.Name {
				case "Skip", "Skipf", "SkipNow":
					if s.test || strings.HasPrefix(s.dir, "internal/") {
						t.Errorf("%s: a test that skips", s.at(node))
					}
				case "Short":
					if x, ok := selector.X.(*ast.Ident); ok && x.Name == "testing" {
						t.Errorf("%s: a test that hides behind -short", s.at(node))
					}
				}
			}
			return true
		})
	}
}

// Whoever builds decides where packages come from, so nothing in the tree names such a place.
func TestNoRegistryIsNamed(t *testing.T) {
	var hosts [][]byte
	for _, labels := range [][]string{
		{"pypi", "org"}, {"pythonhosted", "org"}, {"proxy", "golang", "org"}, {"sum", "golang", "org"},
		{"deb", "debian", "org"}, {"registry", "npmjs", "org"}, {"repo1", "maven", "org"},
	} {
		hosts = append(hosts, []byte(strings.Join(labels, ".")))
	}
	for _, path := range files(t) {
		text, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		for _, host := range hosts {
			if bytes.Contains(text, host) {
				t.Errorf("%s names %s", path, host)
			}
		}
	}
}
