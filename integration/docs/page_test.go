package docs

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// root is the module's folder, seen from this one.
const root = "../.."

// page is a Markdown file of the documentation.
type page struct {
	path   string // from the module's folder
	lines  []string
	blocks []*block
}

// block is a fenced block of a page, with the comments that stand between it and the block before.
type block struct {
	at    string   // page:line of the fence
	kind  string   // the first word after the fence: the language by which it is coloured
	words []string // the others
	lines []string
	first int // index of lines[0] in the page

	notRun string           // why it is not checked; empty: it is
	stop   bool             // what runs in the background ends before it
	fresh  bool             // it begins early in a minute
	varies []*regexp.Regexp // what is different each time
}

// A comment of the page that tells the test something; docs/README.md says what.
var directive = regexp.MustCompile(`^\s*<!-- (not run|varies|stop|fresh minute)(?:: (.+))? -->$`)

// documentation returns the pages that are checked.
func documentation(t *testing.T) []*page {
	t.Helper()
	var pages []*page
	for _, pattern := range []string{"*.md", "docs/*.md", "deploy/*.md", "deploy/*/*.md", "config/*.md", "config/*/*.md"} {
		paths, err := fs.Glob(os.DirFS(root), pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			if slices.Contains(unchecked, path) {
				continue
			}
			text, err := os.ReadFile(filepath.Join(root, path))
			if err != nil {
				t.Fatal(err)
			}
			p, err := parsePage(path, string(text))
			if err != nil {
				t.Fatal(err)
			}
			pages = append(pages, p)
		}
	}
	return pages
}

// unchecked are pages about the code, for those who change it: what is fenced in them are drawings and Go.
var unchecked = []string{"ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"}

// parsePage finds the fenced blocks of a page.
func parsePage(path, text string) (*page, error) {
	p := &page{path: path, lines: strings.Split(text, "\n")}
	next := &block{}
	for i := 0; i < len(p.lines); i++ {
		line := strings.TrimSpace(p.lines[i])
		at := fmt.Sprintf("%s:%d", path, i+1)
		switch {
		case strings.HasPrefix(line, "<!--"):
			if err := next.heed(line); err != nil {
				return nil, fmt.Errorf("%s: %w", at, err)
			}
		case strings.HasPrefix(line, "~~~"):
			return nil, fmt.Errorf("%s: fence with ```, not ~~~", at)
		case strings.HasPrefix(line, "```"):
			indent, _, _ := strings.Cut(p.lines[i], "`")
			next.at, next.first = at, i+1
			next.words = strings.Fields(strings.TrimPrefix(line, "```"))
			if len(next.words) > 0 {
				next.kind, next.words = next.words[0], next.words[1:]
			}
			for i++; i < len(p.lines) && strings.TrimSpace(p.lines[i]) != "```"; i++ {
				next.lines = append(next.lines, strings.TrimPrefix(p.lines[i], indent))
			}
			if i == len(p.lines) {
				return nil, fmt.Errorf("%s: the block has no end", at)
			}
			p.blocks = append(p.blocks, next)
			next = &block{}
		}
	}
	return p, nil
}

// heed takes in a comment.
func (b *block) heed(line string) error {
	found := directive.FindStringSubmatch(line)
	if found == nil {
		return fmt.Errorf("%s is no comment that the test knows", line)
	}
	switch name, text := found[1], found[2]; {
	case (name == "stop" || name == "fresh minute") != (text == ""):
		return fmt.Errorf("%s: only `not run` and `varies` have a text, and need one", line)
	case name == "stop":
		b.stop = true
	case name == "fresh minute":
		b.fresh = true
	case name == "not run":
		b.notRun = text
	default:
		pattern, err := regexp.Compile(text)
		if err != nil {
			return fmt.Errorf("%s: %w", line, err)
		}
		b.varies = append(b.varies, pattern)
	}
	return nil
}

// text is what stands in the block.
func (b *block) text() string { return strings.Join(b.lines, "\n") + "\n" }

// has says whether a word stands after the fence.
func (b *block) has(word string) bool { return slices.Contains(b.words, word) }

// value returns what stands after name= after the fence.
func (b *block) value(name string) string {
	for _, word := range b.words {
		if value, found := strings.CutPrefix(word, name+"="); found {
			return value
		}
	}
	return ""
}

// rewrite puts lines in place of the n lines of the page from index from, and keeps the indices of the blocks true.
func (p *page) rewrite(t *testing.T, from, n int, lines []string) {
	t.Helper()
	p.lines = slices.Replace(p.lines, from, from+n, lines...)
	for _, b := range p.blocks {
		if b.first > from {
			b.first += len(lines) - n
		}
	}
	if err := os.WriteFile(filepath.Join(root, p.path), []byte(strings.Join(p.lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
}
