package config

import (
	"io/fs"
	"testing"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
	"github.com/ratelimitd/ratelimitd/pkg/descriptors"
)

// TestEachSampleLoads compiles every file on its own and all together, as
// they are embedded and as they lie in the folder.
func TestEachSampleLoads(t *testing.T) {
	embedded, err := descriptors.ReadFS(Policies())
	if err != nil || len(embedded) == 0 {
		t.Fatalf("%d samples, %v", len(embedded), err)
	}
	for _, file := range embedded {
		for _, counting := range []algorithm.Counting{algorithm.Precise, algorithm.Reference} {
			if _, err := descriptors.Compile([]descriptors.File{file}, descriptors.Options{Counting: counting}); err != nil {
				t.Errorf("counting %d: %v", counting, err)
			}
		}
	}
	rules, err := descriptors.Compile(embedded, descriptors.Options{})
	if err != nil {
		t.Fatal(err)
	}
	folder, err := descriptors.ReadDir("policies")
	if err != nil {
		t.Fatal(err)
	}
	same, err := descriptors.Compile(folder, descriptors.Options{})
	if err != nil || same.Revision() != rules.Revision() {
		t.Errorf("the folder holds other files than the program: %v", err)
	}
	if found, _ := fs.Glob(Policies(), "*.yaml"); len(found) != len(embedded) {
		t.Errorf("of %d files %d are read", len(found), len(embedded))
	}
}

// TestTheFirstExample is what README.md asks first.
func TestTheFirstExample(t *testing.T) {
	files, err := descriptors.ReadFS(Policies())
	if err != nil {
		t.Fatal(err)
	}
	rules, err := descriptors.Compile(files, descriptors.Options{})
	if err != nil {
		t.Fatal(err)
	}
	domain := rules.Domain([]byte("edge"))
	if domain == nil {
		t.Fatal("no domain edge")
	}
	rule := domain.Match([]descriptors.Entry{{Key: []byte("user"), Value: []byte("alice")}})
	if rule == nil || len(rule.Limits) != 1 || rule.Limits[0].Limit.Requests != 10 || rule.Limits[0].Limit.Algorithm.Name != "token_bucket" {
		t.Errorf("rule %+v", rule)
	}
}
