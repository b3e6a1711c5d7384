package archtest

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// tabbed are the files, beside Go's, that are indented with tabs.
var tabbed = []string{".lua", ".mk", "Makefile", "go.mod", "go.sum", "demo", "run", "fetch-envoy", "fetch-h2spec", "install-missing", "tools/vuln"}

// Files are as .editorconfig says, so that nobody's editor changes lines that nobody meant to change.
func TestFilesAreAsEditorsAreTold(t *testing.T) {
	for _, path := range files(t) {
		if strings.Contains(path, "testdata/") {
			continue // read byte by byte
		}
		text, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.IndexByte(text, 0) >= 0 {
			continue // a program that somebody has built
		}
		if len(text) > 0 && !bytes.HasSuffix(text, []byte("\n")) {
			t.Errorf("%s does not end with a newline", path)
		}
		tabs := strings.HasSuffix(path, ".go") || slices.ContainsFunc(tabbed, func(end string) bool { return strings.HasSuffix(path, end) })
		for i, line := range strings.Split(string(text), "\n") {
			switch {
			case strings.TrimRight(line, " \t\r") != line:
				t.Errorf("%s:%d ends with a space, a tab or a carriage return", path, i+1)
			case strings.HasPrefix(line, "\t") && !tabs:
				t.Errorf("%s:%d is indented with a tab", path, i+1)
			}
		}
	}
}
