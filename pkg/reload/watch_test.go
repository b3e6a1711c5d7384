package reload

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// run runs a loader until the test ends, and fails it if goroutines stay.
func (r *recorder) run(t *testing.T) {
	t.Helper()
	before := runtime.NumGoroutine()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		for end := time.Now().Add(2 * time.Second); runtime.NumGoroutine() > before && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		if n := runtime.NumGoroutine(); n > before {
			t.Errorf("%d goroutines were %d before", n, before)
		}
	})
}

// within is how soon a change must be in force.
const within = 2 * time.Second

// await waits until the newest rules are these.
func (r *recorder) await(t *testing.T, want string) {
	t.Helper()
	begin := time.Now()
	for {
		got := r.history()
		if got[strings.LastIndex(got, ", ")+1:] == want || strings.HasSuffix(got, ", "+want) {
			t.Logf("%s after %v", want, time.Since(begin).Round(time.Millisecond))
			return
		}
		if time.Since(begin) > within {
			t.Fatalf("after %v handed on %q, want %q", within, got, want)
		}
		time.Sleep(time.Millisecond)
	}
}

func started(t *testing.T, dir string) *recorder {
	t.Helper()
	r := newRecorder(t, dir)
	r.Load()
	r.run(t)
	return r
}

func TestEditInPlace(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/a.yaml", policy("a", 1))
	r := started(t, dir)
	write(t, dir+"/a.yaml", policy("a", 2))
	r.await(t, "a=2")
	write(t, dir+"/sub/b.yaml", policy("b", 3)) // a directory that is new
	r.await(t, "a=2 b=3")
	write(t, dir+"/sub/b.yaml", policy("b", 4))
	r.await(t, "a=2 b=4")
}

func TestRename(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	write(t, dir+"/a.yaml", policy("a", 1))
	r := started(t, dir)
	write(t, other+"/staged", policy("a", 2))
	if err := os.Rename(other+"/staged", dir+"/a.yaml"); err != nil {
		t.Fatal(err)
	}
	r.await(t, "a=2")
	if err := os.Rename(dir+"/a.yaml", dir+"/b.yaml"); err != nil { // the same text elsewhere
		t.Fatal(err)
	}
	write(t, dir+"/c.yaml", policy("c", 3))
	r.await(t, "a=2 c=3")
}

// TestConfigMap swaps the link that Kubernetes swaps.
func TestConfigMap(t *testing.T) {
	dir := t.TempDir()
	mount := func(version string, n int) {
		t.Helper()
		write(t, filepath.Join(dir, version, "a.yaml"), policy("a", n))
		if err := os.Symlink(version, dir+"/..data_tmp"); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(dir+"/..data_tmp", dir+"/..data"); err != nil {
			t.Fatal(err)
		}
	}
	mount("..2026_12_01_1", 1)
	if err := os.Symlink("..data/a.yaml", dir+"/a.yaml"); err != nil {
		t.Fatal(err)
	}
	r := started(t, dir)
	mount("..2026_12_01_2", 2)
	if err := os.RemoveAll(dir + "/..2026_12_01_1"); err != nil {
		t.Fatal(err)
	}
	r.await(t, "a=2")
	mount("..2026_12_01_3", 3)
	r.await(t, "a=3")
	if got := r.history(); got != "a=1, a=2, a=3" {
		t.Errorf("handed on %q", got)
	}
}

func TestDirectoryBehindALink(t *testing.T) {
	root := t.TempDir()
	write(t, root+"/one/a.yaml", policy("a", 1))
	write(t, root+"/two/a.yaml", policy("a", 2))
	link := func(target string) {
		t.Helper()
		if err := os.Symlink(target, root+"/next"); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(root+"/next", root+"/current"); err != nil {
			t.Fatal(err)
		}
	}
	link("one")
	r := started(t, root+"/current")
	link("two")
	r.await(t, "a=2")
	write(t, root+"/two/a.yaml", policy("a", 3))
	r.await(t, "a=3")
}

func TestDirectoryThatIsMissingAtTheStart(t *testing.T) {
	dir := t.TempDir() + "/not/yet"
	r := started(t, dir)
	if r.Status().Rules != nil || r.Status().Err == nil {
		t.Fatalf("%+v", r.Status())
	}
	write(t, dir+"/a.yaml", policy("a", 1))
	r.await(t, "a=1")
	if err := r.Status().Err; err != nil {
		t.Error(err)
	}
}

func TestDirectoryThatGoesAndComesBack(t *testing.T) {
	dir := t.TempDir() + "/policies"
	write(t, dir+"/a.yaml", policy("a", 1))
	r := started(t, dir)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	write(t, dir+"/a.yaml", policy("a", 2))
	r.await(t, "a=2")
}

// TestHalfWrittenFileResolvesItself writes a file in pieces, of which some
// would load.
func TestHalfWrittenFileResolvesItself(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/a.yaml", policy("a", 1))
	r := started(t, dir)
	text := policy("a", 1000)
	f, err := os.Create(dir + "/a.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for i := 0; i < len(text); i += 8 {
		if _, err := f.WriteString(text[i:min(i+8, len(text))]); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond)
	}
	r.await(t, "a=1000")
	if err := r.Status().Err; err != nil {
		t.Error(err)
	}
}

func TestWatchedDirectories(t *testing.T) {
	root := t.TempDir()
	dir := root + "/policies"
	write(t, dir+"/a/b/x.yaml", "")
	write(t, root+"/elsewhere/deep/x.yaml", "")
	write(t, root+"/files/x.yaml", "")
	for _, link := range [][2]string{
		{"../elsewhere", "linked"}, {"../files/x.yaml", "x.yaml"}, {"..", "loop"}, {"nowhere", "broken"},
	} {
		if err := os.Symlink(link[0], filepath.Join(dir, link[1])); err != nil {
			t.Fatal(err)
		}
	}
	seen := map[string]bool{}
	for _, d := range directories(dir) {
		seen[strings.TrimPrefix(d, root)] = true
	}
	for _, want := range []string{"/policies", "/policies/a", "/policies/a/b", "/elsewhere", "/elsewhere/deep", "/files"} {
		if !seen[want] {
			t.Errorf("%s is not watched: %v", want, seen)
		}
	}
}
