package docs

import (
	"os"
	"path/filepath"
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
