package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// root is the module's folder, seen from this one.
const root = "../.."

// module is the module's path, with which its own imports begin.
const module = "github.com/ratelimitd/ratelimitd/"

// source is a Go file of the module.
type source struct {
	path string // from the root, with slashes
	dir  string
	test bool
	file *ast.File
	set  *token.FileSet
}

// lines returns how many lines a node takes.
func (s *source) lines(node ast.Node) int {
	return s.set.Position(node.End()).Line - s.set.Position(node.Pos()).Line + 1
}

// at returns where a node is, for messages.
func (s *source) at(node ast.Node) string {
	position := s.set.Position(node.Pos())
	position.Filename = s.path
	return position.String()
}

// files returns the paths of all files of the tree, but not what is built or fetched.
func files(t *testing.T) []string {
	t.Helper()
	var paths []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			switch entry.Name() {
			case ".git", ".tools", "bin":
				return filepath.SkipDir
			}
			return nil
		}
		relative, err := filepath.Rel(root, path)
		if entry.Type().IsRegular() {
			paths = append(paths, filepath.ToSlash(relative))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// sources returns all Go files of the module.
func sources(t *testing.T) []*source {
	t.Helper()
	var all []*source
	for _, path := range files(t) {
		if !strings.HasSuffix(path, ".go") || strings.Contains(path, "testdata/") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		s := &source{path: path, dir: filepath.ToSlash(filepath.Dir(path)), test: strings.HasSuffix(path, "_test.go"), set: token.NewFileSet()}
		if s.file, err = parser.ParseFile(s.set, path, text, parser.ParseComments); err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	if len(all) == 0 {
		t.Fatal("found no Go files")
	}
	return all
}
