package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ratelimitd/ratelimitd/pkg/settings"
)

var (
	markdownLink = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	htmlSource   = regexp.MustCompile(`(?:src|href|srcset)="([^"]+)"`)
	heading      = regexp.MustCompile(`^#+ (.*)$`)
	unspoken     = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	variable     = regexp.MustCompile(`\bRATELIMITD_[A-Z_]+\b`)
	metric       = regexp.MustCompile(`\bratelimitd_[a-z_]+\b`)
)

// TestDocsLinks wants what the pages link to in this repository to be there, headings included.
func TestDocsLinks(t *testing.T) {
	for _, p := range documentation(t) {
		text := strings.Join(p.lines, "\n")
		for _, found := range append(markdownLink.FindAllStringSubmatch(text, -1), htmlSource.FindAllStringSubmatch(text, -1)...) {
			to, anchor, _ := strings.Cut(found[1], "#")
			if strings.Contains(to, "://") {
				continue
			}
			file := filepath.Join(root, filepath.Dir(p.path), to)
			if to == "" {
				file = filepath.Join(root, p.path)
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s links to %s: %v", p.path, found[1], err)
			} else if anchor != "" && !anchors(t, file)[anchor] {
				t.Errorf("%s links to %s: there is no such heading", p.path, found[1])
			}
		}
	}
}

// anchors returns those of a page's headings, as GitHub makes them.
func anchors(t *testing.T, file string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if found := heading.FindStringSubmatch(strings.TrimSpace(line)); found != nil {
			words := unspoken.ReplaceAllString(strings.ToLower(found[1]), "")
			all[strings.ReplaceAll(words, " ", "-")] = true
		}
	}
	return all
}

// TestDocsNames wants every setting and every metric that a page names to exist.
func TestDocsNames(t *testing.T) {
	known := map[string]bool{}
	for _, setting := range settings.All() {
		known[setting.Env()] = true
	}
	told := toldMetrics(t)
	for _, p := range documentation(t) {
		for _, line := range p.lines {
			for _, name := range variable.FindAllString(line, -1) {
				if !known[name] && !strings.HasSuffix(name, "_") && !strings.HasPrefix(name, "RATELIMITD_SERVICE") && !strings.HasPrefix(name, "RATELIMITD_PORT") {
					t.Errorf("%s names the setting %s, which there is not", p.path, name)
				}
			}
			for _, name := range metric.FindAllString(line, -1) {
				base := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_sum"), "_count")
				if !told[name] && !told[base] && !strings.HasSuffix(name, "_") {
					t.Errorf("%s names the metric %s, which there is not", p.path, name)
				}
			}
		}
	}
}

// toldMetrics are the names in the table of docs/operations.md, which TestMetricsTable compares with running programs.
func toldMetrics(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, metricsPage))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), metricsHead)
	table, _, _ = strings.Cut(table, "\n\n")
	told := map[string]bool{}
	for row := range strings.Lines(table) {
		told[metric.FindString(row)] = true
	}
	return told
}
