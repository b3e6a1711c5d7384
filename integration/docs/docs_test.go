package docs

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/ratelimitd/ratelimitd/internal/programtest"
	"github.com/ratelimitd/ratelimitd/pkg/descriptors"
	"github.com/ratelimitd/ratelimitd/pkg/settings"
)

var update = flag.Bool("update", false, "write into the pages what their commands print now")

// ratelimitdPath is the binary that TestMain built; it does not change after.
var ratelimitdPath string

// TestMain builds ratelimitd once for all pages.
func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(programtest.Main(m, &ratelimitdPath, false))
}

// TestDocs runs every command of the documentation and checks every example, page by page, from top to bottom, as a
// reader would. A block of a kind that is not known here fails. docs/README.md says how pages are written for it.
func TestDocs(t *testing.T) {
	for _, p := range documentation(t) {
		t.Run(p.path, func(t *testing.T) {
			if len(p.blocks) == 0 {
				return
			}
			s := newSession(t)
			for _, b := range p.blocks {
				if b.stop {
					s.stop()
				}
				if b.notRun == "" {
					checkBlock(t, p, s, b)
				}
			}
		})
	}
}

func checkBlock(t *testing.T, p *page, s *session, b *block) {
	t.Helper()
	if file := b.value("file"); file != "" {
		s.write(t, file, b.text())
	}
	if file := b.value("from"); file != "" {
		checkQuote(t, b, file)
		return
	}
	switch kind := strings.TrimSpace(b.kind + " " + strings.Join(b.words[:min(1, len(b.words))], "")); {
	case kind == "console background":
		s.background(t, b)
	case b.kind == "console":
		s.console(t, p, b)
	case kind == "yaml policy":
		checkPolicy(t, b)
	case kind == "yaml envoy":
		checkEnvoy(t, b)
	case kind == "yaml settings":
		checkSettings(t, b)
	case b.kind == "json":
		if !json.Valid([]byte(b.text())) {
			t.Errorf("%s: this is not JSON", b.at)
		}
	case b.kind == "promql": // its names are checked, as everywhere
	case b.kind == "text": // a formula or a drawing
	default:
		t.Errorf("%s: nothing checks a block of the kind %q; docs/README.md tells those that are", b.at, kind)
	}
}

// checkQuote wants a block to stand in a file, indented in whatever way.
func checkQuote(t *testing.T, b *block, file string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Errorf("%s: %v", b.at, err)
		return
	}
	if !strings.Contains(trimLines(string(text)), trimLines(b.text())) {
		t.Errorf("%s: this does not stand in %s", b.at, file)
	}
}

func trimLines(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		out.WriteString(strings.TrimSpace(line) + "\n")
	}
	return out.String()
}

// checkPolicy compiles a policy file, or a part of one: items of `descriptors`, or what belongs to one of them.
func checkPolicy(t *testing.T, b *block) {
	t.Helper()
	text := dedent(b.lines)
	switch content := firstContent(b.lines); {
	case strings.HasPrefix(content, "domain:"):
	case strings.HasPrefix(content, "- "):
		text = "domain: example\ndescriptors:\n" + indent(text, "  ")
	default:
		text = "domain: example\ndescriptors:\n  - key: example\n" + indent(text, "    ")
	}
	_, err := descriptors.Compile([]descriptors.File{{Name: "policy.yaml", Text: []byte(text)}}, descriptors.Options{})
	switch bad := b.has("bad"); {
	case err != nil && !bad:
		t.Errorf("%s: the policy does not compile:\n%v\n%s", b.at, err, text)
	case err == nil && bad:
		t.Errorf("%s: this policy is said to be bad, and compiles", b.at)
	}
}

// checkSettings loads a settings file.
func checkSettings(t *testing.T, b *block) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "settings.yaml")
	if err := os.WriteFile(file, []byte(b.text()), 0o600); err != nil {
		t.Fatal(err)
	}
	flags := pflag.NewFlagSet("docs", pflag.ContinueOnError)
	settings.AddFlags(flags)
	if err := flags.Set("config", file); err != nil {
		t.Fatal(err)
	}
	if _, err := settings.Load(settings.Source{Flags: flags}); err != nil {
		t.Errorf("%s: these settings do not load: %v", b.at, err)
	}
}

// firstContent returns the first line that is neither empty nor a comment, without its indent.
func firstContent(lines []string) string {
	for _, line := range lines {
		if trimmed := strings.TrimSpace(line); trimmed != "" && !strings.HasPrefix(trimmed, "#") {
			return trimmed
		}
	}
	return ""
}

// dedent takes away the indent that the first line has.
func dedent(lines []string) string {
	indent := ""
	if len(lines) > 0 {
		indent = lines[0][:len(lines[0])-len(strings.TrimLeft(lines[0], " "))]
	}
	var text strings.Builder
	for _, line := range lines {
		text.WriteString(strings.TrimPrefix(line, indent) + "\n")
	}
	return text.String()
}

func indent(text, by string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		out.WriteString(by + line)
	}
	return out.String()
}
