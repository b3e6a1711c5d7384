package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// TestEveryAlgorithmIsTold wants a row about each algorithm in the tables of the pages that compare them, and its picture.
func TestEveryAlgorithmIsTold(t *testing.T) {
	for page, row := range map[string]string{"README.md": "\n| `NAME` |", "docs/algorithms.md": "\n| [`NAME`](#"} {
		text, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range algorithm.Names() {
			if !strings.Contains(string(text), strings.ReplaceAll(row, "NAME", name)) {
				t.Errorf("%s has no row about %s", page, name)
			}
			if page == "docs/algorithms.md" && !strings.Contains(string(text), "(img/"+name+".svg)") {
				t.Errorf("%s does not show img/%s.svg", page, name)
			}
		}
	}
}

// sourceName is the name of a file of code, with folders or without.
var sourceName = regexp.MustCompile(`\b[\w/]+\.(?:go|lua)\b`)

// TestPagesAboutTheCodeNameFilesThatAreThere wants the files that these pages name, and link to, to exist. CONTRIBUTING.md
// tells of an algorithm that does not.
func TestPagesAboutTheCodeNameFilesThatAreThere(t *testing.T) {
	imagined := []string{"sessionwindow.go", "sessionwindow.lua", "pkg/algorithm/sessionwindow.go"}
	there := map[string]bool{} // by each end of their paths
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		for rest := filepath.ToSlash(path); err == nil && !entry.IsDir() && rest != ""; {
			there[rest] = true
			_, rest, _ = strings.Cut(rest, "/")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range unchecked {
		text, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range sourceName.FindAllString(string(text), -1) {
			if !there[name] && !slices.Contains(imagined, name) {
				t.Errorf("%s names %s, which is not there", page, name)
			}
		}
		for _, link := range markdownLink.FindAllStringSubmatch(string(text), -1) {
			to, _, _ := strings.Cut(link[1], "#")
			if _, err := os.Stat(filepath.Join(root, to)); err != nil && !strings.Contains(to, "://") {
				t.Errorf("%s links to %s: %v", page, link[1], err)
			}
		}
	}
}
