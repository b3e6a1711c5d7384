package archtest

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// Every package says in its first sentence what it does, once.
func TestPackagesAreDocumented(t *testing.T) {
	docs := map[string]int{}
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		docs[s.dir] += 0
		if s.file.Doc == nil {
			continue
		}
		docs[s.dir]++
		sentence, _, found := strings.Cut(strings.ReplaceAll(s.file.Doc.Text(), "\n", " ")+" ", ". ")
		begin := "Package " + s.file.Name.Name + " "
		if s.file.Name.Name == "main" {
			begin = "Command " + s.dir[strings.LastIndex(s.dir, "/")+1:] + " "
		}
		if !found || !strings.HasPrefix(sentence, begin) {
			t.Errorf("%s: the package's doc must be a sentence that begins with %q", s.path, begin)
		}
	}
	for dir, n := range docs {
		if n != 1 {
			t.Errorf("%s: %d files have a doc of the package, want 1", dir, n)
		}
	}
}

// A package is named for what it does, not for having been written.
func TestPackageNamesSaySomething(t *testing.T) {
	empty := []string{"util", "utils", "common", "helper", "helpers", "impl", "manager", "misc", "shared", "types", "base", "core", "lib"}
	for _, s := range sources(t) {
		if slices.Contains(empty, strings.TrimSuffix(s.file.Name.Name, "_test")) {
			t.Errorf("%s: package %s: the name says nothing", s.path, s.file.Name.Name)
		}
	}
}

// Every exported name has a comment that says what it means.
func TestExportedNamesAreDocumented(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || s.file.Name.Name == "main" {
			continue
		}
		for _, decl := range s.file.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				if decl.Name.IsExported() && onExported(decl) && !conventional(decl) && decl.Doc == nil {
					t.Errorf("%s: %s has no comment", s.at(decl), decl.Name.Name)
				}
			case *ast.GenDecl:
				for _, name := range undocumented(decl) {
					t.Errorf("%s: %s has no comment", s.at(name), name.Name)
				}
			}
		}
	}
}

// conventional says whether a method means what it means everywhere.
func conventional(f *ast.FuncDecl) bool {
	return f.Recv != nil && slices.Contains([]string{"Error", "String", "Unwrap"}, f.Name.Name)
}

// onExported says whether a function is one that others can call: no method, or one of an exported type.
func onExported(f *ast.FuncDecl) bool {
	if f.Recv == nil {
		return true
	}
	receiver := f.Recv.List[0].Type
	for {
		switch r := receiver.(type) {
		case *ast.StarExpr:
			receiver = r.X
		case *ast.IndexExpr:
			receiver = r.X
		case *ast.Ident:
			return r.IsExported()
		default:
			return true
		}
	}
}

// undocumented returns the exported names of a declaration that neither it nor their own line comments on.
func undocumented(decl *ast.GenDecl) []*ast.Ident {
	var names []*ast.Ident
	for _, spec := range decl.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			if spec.Name.IsExported() && decl.Doc == nil && spec.Doc == nil {
				names = append(names, spec.Name)
			}
		case *ast.ValueSpec:
			if decl.Doc != nil || spec.Doc != nil || spec.Comment != nil {
				continue
			}
			for _, name := range spec.Names {
				if name.IsExported() {
					names = append(names, name)
				}
			}
		}
	}
	return names
}
