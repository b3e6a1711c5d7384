package descriptors

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
)

// tree makes files below a new directory: a text, or a link where it begins
// with "-> ". A name that ends with / is a folder.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if target, isLink := strings.CutPrefix(text, "-> "); isLink {
			err = os.Symlink(target, path)
		} else if !strings.HasSuffix(name, "/") {
			err = os.WriteFile(path, []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func listed(files []File) string {
	var list []string
	for _, f := range files {
		list = append(list, f.Name+"="+string(f.Text))
	}
	return strings.Join(list, " ")
}

func TestReadDir(t *testing.T) {
	for _, row := range []struct {
		what  string
		files map[string]string
		want  string
	}{
		{"what editors leave (X2)", map[string]string{
			"b.yaml": "b", "a.yml": "a", ".a.yaml.swp": "no", "a.yaml~": "no", ".hidden.yaml": "no", "4913": "no",
			"#a.yaml#": "no", ".#a.yaml": "-> nowhere", "a.yaml.bak": "no", "README.md": "no", "a.json": "no",
		}, "a.yml=a b.yaml=b"},
		{"a mounted ConfigMap (X2)", map[string]string{
			"..2026_12_01/m.yaml": "m", "..2026_12_01/deep/n.yaml": "n", "..data": "-> ..2026_12_01",
			"m.yaml": "-> ..data/m.yaml", "deep": "-> ..data/deep",
		}, "deep/n.yaml=n m.yaml=m"},
		{"folders", map[string]string{
			"z.yaml": "z", "team/a.yaml": "a", "team/more/b.yaml": "b", ".git/c.yaml": "no", "empty/x.txt": "no",
		}, "team/a.yaml=a team/more/b.yaml=b z.yaml=z"},
		{"nothing", map[string]string{"x.txt": "no"}, ""},
	} {
		files, err := ReadDir(tree(t, row.files), 0)
		if err != nil {
			t.Errorf("%s: %v", row.what, err)
		} else if got := listed(files); got != row.want {
			t.Errorf("%s: got %s, want %s", row.what, got, row.want)
		}
	}
}

// A choice takes other names, too.
func TestChoice(t *testing.T) {
	dir := tree(t, map[string]string{
		"config/a.yaml": "a", "config/README": "b", "config.d/c": "c", "config.yaml": "d", "configure": "no", "other/e.yaml": "no",
		"config/.f": "f", "config/.a.yaml.swp": "no", "config/a.yaml~": "no", "config/.#a.yaml": "-> nowhere", "config/..data": "-> ..2026",
		"config/..2026/g.yaml": "no", "config/g.yaml": "-> ..data/g.yaml", "config/more/h": "h", "config/link": "-> more",
	})
	for _, row := range []struct {
		choice Choice
		want   string
	}{
		{Choice{Any: true, Dotted: true, Within: "config"}, "config.d/c=c config.yaml=d config/.f=f config/README=b config/a.yaml=a config/g.yaml=no config/more/h=h"},
		{Choice{Any: true, Within: "config"}, "config.d/c=c config.yaml=d config/README=b config/a.yaml=a config/g.yaml=no config/more/h=h"},
		{Choice{Within: "other"}, "other/e.yaml=no"},
	} {
		files, err := row.choice.ReadDir(dir, 0)
		if got := listed(files); err != nil || got != row.want {
			t.Errorf("%+v: got %s, %v\nwant %s", row.choice, got, err, row.want)
		}
	}
}

func TestReadDirErrorsNameTheFile(t *testing.T) {
	pipe := tree(t, map[string]string{"a.yaml": "a"})
	if err := syscall.Mkfifo(filepath.Join(pipe, "pipe.yaml"), 0o644); err != nil {
		t.Fatal(err)
	}
	large := tree(t, map[string]string{"large.yaml": ""})
	if err := os.Truncate(filepath.Join(large, "large.yaml"), MaxFileSize+1); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct{ dir, want string }{
		{tree(t, map[string]string{"gone.yaml": "-> nowhere"}), "gone.yaml"},
		{tree(t, map[string]string{"sub/back": "-> ../sub"}), "symbolic link"},
		{pipe, "pipe.yaml is not a regular file"},
		{large, "large.yaml has 16777217 bytes; at most 16777216 are allowed"},
		{filepath.Join(t.TempDir(), "missing"), "missing"},
		{filepath.Join(tree(t, map[string]string{"a.yaml": "a"}), "a.yaml"), "is not a directory"},
	} {
		files, err := ReadDir(row.dir, 0)
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("got %d files and error %v, want an error with %q", len(files), err, row.want)
		}
	}
}

func TestReadFS(t *testing.T) {
	files, err := ReadFS(fstest.MapFS{
		"b.yaml":      {Data: []byte("b")},
		"a/c.yaml":    {Data: []byte("c")},
		"a/.d.yaml":   {Data: []byte("no")},
		"policies.go": {Data: []byte("no")},
	}, 0)
	if err != nil || listed(files) != "a/c.yaml=c b.yaml=b" {
		t.Errorf("got %s, %v", listed(files), err)
	}
}

// TestReadFSIsBounded by what the files have together.
func TestReadFSIsBounded(t *testing.T) {
	files := fstest.MapFS{"a.yaml": {Data: make([]byte, 60)}, "b/b.yaml": {Data: make([]byte, 60)}, "b/c.txt": {Data: make([]byte, 600)}}
	if got, err := ReadFS(files, 120); err != nil || len(got) != 2 {
		t.Errorf("got %d, %v", len(got), err)
	}
	const want = "read policies: the files up to b/b.yaml have 120 bytes together; the setting policies_max_size allows 119"
	if _, err := ReadFS(files, 119); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
