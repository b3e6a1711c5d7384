package archtest

import (
	"go/ast"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Imports go one way: cmd → service, backend, settings, reload, web … → descriptors → algorithm. A package of the middle row
// knows the two below it and none beside it.
func TestImportsGoOneWay(t *testing.T) {
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		for _, spec := range s.file.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if reason := forbidden(s.dir, path); reason != "" {
				t.Errorf("%s: %s must not import %s: %s", s.at(spec), s.dir, path, reason)
			}
		}
	}
}

// forbidden returns why a package must not import another, or nothing.
func forbidden(dir, path string) string {
	own, ours := strings.CutPrefix(path, module)
	switch {
	case dir == "pkg/algorithm" && strings.Contains(strings.SplitN(path, "/", 2)[0], "."):
		return "algorithm has the standard library only"
	case dir == "pkg/algorithm" && slices.Contains([]string{"net", "os", "log", "log/slog", "context", "math/rand", "math/rand/v2"}, path):
		return "algorithm is pure"
	case !ours || strings.HasPrefix(own, dir+"/"):
		return ""
	case strings.HasPrefix(own, "cmd/") || strings.HasPrefix(own, "integration") || strings.HasPrefix(own, "tools/"):
		return "it is at the top"
	case (own == "internal/spelling" || own == "internal/certificates") && dir != "pkg/algorithm":
		return ""
	case strings.HasPrefix(own, "internal/") && !strings.HasPrefix(dir, "internal/"):
		return "it is for tests"
	case strings.HasPrefix(dir, "cmd/"):
		return ""
	case dir == "pkg/compat" && own == "pkg/settings":
		return "" // another way to write these
	case dir == "pkg/descriptors" && own != "pkg/algorithm":
		return "descriptors knows algorithm only"
	case strings.HasPrefix(dir, "pkg/") && own != "pkg/algorithm" && own != "pkg/descriptors":
		return "siblings do not know each other; only cmd knows all"
	}
	return ""
}

// The rule itself, on imports that are right and wrong.
func TestForbidden(t *testing.T) {
	tests := []struct {
		dir, path string
		want      bool
	}{
		{"pkg/algorithm", "time", false},
		{"pkg/algorithm", "net", true},
		{"pkg/algorithm", "github.com/redis/go-redis/v9", true},
		{"pkg/algorithm", module + "pkg/descriptors", true},
		{"pkg/descriptors", module + "pkg/algorithm", false},
		{"pkg/descriptors", module + "pkg/service", true},
		{"pkg/service", module + "pkg/descriptors", false},
		{"pkg/service", module + "pkg/backend", true},
		{"pkg/backend", module + "pkg/service", true},
		{"pkg/compat", module + "pkg/settings", false},
		{"pkg/settings", module + "pkg/compat", true},
		{"pkg/backend", module + "internal/redistest", true},
		{"pkg/service", "google.golang.org/grpc", false},
		{"pkg/web", module + "cmd/ratelimitd", true},
		{"cmd/ratelimitd", module + "pkg/service", false},
	}
	for _, test := range tests {
		if got := forbidden(test.dir, test.path) != ""; got != test.want {
			t.Errorf("%s imports %s: forbidden %v, want %v", test.dir, test.path, got, test.want)
		}
	}
}

// Time is an argument of algorithm and of descriptors: they never look at a clock.
func TestPureCodeReadsNoClock(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || s.dir != "pkg/algorithm" && s.dir != "pkg/descriptors" {
			continue
		}
		ast.Inspect(s.file, func(node ast.Node) bool {
			selector, ok := node.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if pkg, ok := selector.X.(*ast.Ident); ok && pkg.Name == "time" {
				switch selector.Sel.Name {
				case "Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker":
					t.Errorf("%s: time.%s in a package that gets the time as an argument", s.at(node), selector.Sel.Name)
				}
			}
			return true
		})
	}
}
