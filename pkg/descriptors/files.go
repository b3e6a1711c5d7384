package descriptors

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

// maxFolders bounds how deep folders nest, and with it a symbolic link that
// leads back.
const maxFolders = 16

// ReadDir reads the policy files of a directory and all below it, sorted by
// name: every .yaml and .yml, through symbolic links as well, as Kubernetes
// mounts a ConfigMap. What begins with a dot is left out, ..data and the swap
// files of editors included; so is what ends with anything else, as in a~. The
// names are relative to the directory, with slashes.
//
// A directory without policy files is no error. A policy file that cannot be
// read is one, and the error names it. So are files of together more than most
// bytes; 0 means [DefaultMaxSize].
func ReadDir(dir string, most int64) ([]File, error) { return Choice{}.ReadDir(dir, most) }

// Choice says which files of a directory are policy files. The zero value takes
// those of [ReadDir].
type Choice struct {
	// Any takes every file, whatever its name ends with, but for what editors
	// and Kubernetes leave behind: names that end in ~ or like .swp, or begin
	// with .. or .#. It follows symbolic links to files only.
	Any bool

	// Dotted takes what begins with a dot, too.
	Dotted bool

	// Within is how names must begin: with this and a dot or a slash. Empty:
	// however they like.
	Within string
}

// ReadDir is [ReadDir] for the files of the choice.
func (c Choice) ReadDir(dir string, most int64) ([]File, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("read policies: %w", err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("read policies: %s is not a directory", dir)
	}
	files, err := c.readFS(os.DirFS(dir), most)
	if err != nil {
		return nil, fmt.Errorf("%w (in %s)", err, dir)
	}
	return files, nil
}

// ReadFS is ReadDir for the root of a file system.
func ReadFS(fsys fs.FS, most int64) ([]File, error) { return Choice{}.readFS(fsys, most) }

func (c Choice) readFS(fsys fs.FS, most int64) ([]File, error) {
	r := folderReader{fsys: fsys, choice: c, most: cmp.Or(most, DefaultMaxSize)}
	if err := r.read(".", 0); err != nil {
		return nil, fmt.Errorf("read policies: %w", err)
	}
	slices.SortFunc(r.files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	return r.files, nil
}

// folderReader collects the policy files of a file system.
type folderReader struct {
	fsys   fs.FS
	choice Choice
	most   int64 // bytes that all files may have together
	size   int64 // that those so far have
	files  []File
}

func (r *folderReader) read(folder string, depth int) error {
	if depth > maxFolders {
		return fmt.Errorf("%s: folders are nested more than %d deep, or a symbolic link leads back", folder, maxFolders)
	}
	entries, err := fs.ReadDir(r.fsys, folder)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		name := path.Join(folder, entry.Name())
		if r.choice.leavesOut(entry) {
			continue
		}
		info, err := fs.Stat(r.fsys, name) // follows a link
		policy := r.choice.isPolicy(name)
		switch {
		case errors.Is(err, fs.ErrNotExist) && !policy:
			continue // a link to nowhere
		case err != nil:
			return err
		case info.IsDir() && r.choice.Any && !entry.IsDir():
			continue // a link to a directory
		case info.IsDir():
			if err := r.read(name, depth+1); err != nil {
				return err
			}
		case policy:
			if err := r.readFile(name, info); err != nil {
				return err
			}
		}
	}
	return nil
}

// leavesOut leaves out what no name of a policy file is, without a look at it.
func (c Choice) leavesOut(entry fs.DirEntry) bool {
	name := entry.Name()
	switch {
	case strings.HasPrefix(name, ".") && !c.Dotted, c.Any && isLeftBehind(name):
		return true
	}
	return !c.Any && !entry.IsDir() && entry.Type()&fs.ModeSymlink == 0 && !isYAML(name)
}

// isPolicy reports whether a file that is not left out is a policy.
func (c Choice) isPolicy(name string) bool {
	rest, within := strings.CutPrefix(name, c.Within)
	if c.Within != "" && (!within || !strings.HasPrefix(rest, ".") && !strings.HasPrefix(rest, "/")) {
		return false
	}
	return c.Any || isYAML(name)
}

func isYAML(name string) bool {
	return strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml")
}

// isLeftBehind reports whether an editor or Kubernetes puts files of the name
// beside others.
func isLeftBehind(name string) bool {
	ending := path.Ext(name)
	return strings.HasSuffix(name, "~") || strings.HasPrefix(name, "..") || strings.HasPrefix(name, ".#") ||
		strings.HasPrefix(name, ".") && len(ending) == len(".swp") && strings.HasPrefix(ending, ".sw")
}

// readFile reads a file of a size that policies have. It opens nothing that
// could make it wait, such as a pipe.
func (r *folderReader) readFile(name string, info fs.FileInfo) error {
	r.size += info.Size()
	switch {
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file", name)
	case info.Size() > MaxFileSize:
		return fmt.Errorf("%s has %d bytes; at most %d are allowed", name, info.Size(), MaxFileSize)
	case r.size > r.most:
		return fmt.Errorf("the files up to %s have %d bytes together; the setting policies_max_size allows %d", name, r.size, r.most)
	}
	text, err := fs.ReadFile(r.fsys, name)
	r.files = append(r.files, File{Name: name, Text: text})
	return err
}
