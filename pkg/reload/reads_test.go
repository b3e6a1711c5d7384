package reload

import (
	"os"
	"path/filepath"
	"testing"
)

// What the directory holds counts when it is new, whether it compiles or not; what
// stands in no directory does not count.
func TestReadsAreCounted(t *testing.T) {
	dir := t.TempDir()
	r := newRecorder(t, dir)
	for _, step := range []struct {
		what string
		do   func()
		want Reads
	}{
		{"an empty directory is refused", func() {}, Reads{1, 1, 0}},
		{"two files", func() {
			write(t, filepath.Join(dir, "a.yaml"), policy("a", 1))
			write(t, filepath.Join(dir, "b.yaml"), policy("b", 1))
		}, Reads{2, 1, 2}},
		{"the same", func() {}, Reads{2, 1, 2}},
		{"one that does not compile", func() { write(t, filepath.Join(dir, "c.yaml"), "domain: [") }, Reads{3, 1, 3}},
		{"they are gone", func() { _ = os.RemoveAll(dir) }, Reads{4, 2, 0}},
	} {
		step.do()
		r.Load()
		if got := r.Reads(); got != step.want {
			t.Errorf("%s: %+v, want %+v", step.what, got, step.want)
		}
	}
	embedded := newRecorder(t, "")
	if embedded.Load(); embedded.Reads() != (Reads{}) || embedded.history() == "" {
		t.Errorf("embedded: %+v, %s", embedded.Reads(), embedded.history())
	}
}
