package descriptors

import (
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
// read is one, and the error names it.
func ReadDir(dir string) ([]File, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("read policies: %w", err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("read policies: %s is not a directory", dir)
	}
	files, err := ReadFS(os.DirFS(dir))
	if err != nil {
		return nil, fmt.Errorf("%w (in %s)", err, dir)
	}
	return files, nil
}

// ReadFS is ReadDir for the root of a file system.
func ReadFS(fsys fs.FS) ([]File, error) {
	files, err := readFolder(fsys, ".", 0)
	if err != nil {
		return nil, fmt.Errorf("read policies: %w", err)
	}
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	return files, nil
}

func readFolder(fsys fs.FS, folder string, depth int) ([]File, error) {
	if depth > maxFolders {
		return nil, fmt.Errorf("%s: folders are nested more than %d deep, or a symbolic link leads back", folder, maxFolders)
	}
	entries, err := fs.ReadDir(fsys, folder)
	if err != nil {
		return nil, err
	}
	var files []File
	for _, entry := range entries {
		name := path.Join(folder, entry.Name())
		if strings.HasPrefix(entry.Name(), ".") || !mayHoldPolicy(entry) {
			continue
		}
		info, err := fs.Stat(fsys, name) // follows a link
		switch {
		case errors.Is(err, fs.ErrNotExist) && !isPolicy(entry.Name()):
			continue // a link to nowhere
		case err != nil:
			return nil, err
		case info.IsDir():
			below, err := readFolder(fsys, name, depth+1)
			if err != nil {
				return nil, err
			}
			files = append(files, below...)
		case isPolicy(entry.Name()):
			file, err := readFile(fsys, name, info)
			if err != nil {
				return nil, err
			}
			files = append(files, file)
		}
	}
	return files, nil
}

// mayHoldPolicy leaves out other files without a look at them.
func mayHoldPolicy(entry fs.DirEntry) bool {
	return entry.IsDir() || entry.Type()&fs.ModeSymlink != 0 || isPolicy(entry.Name())
}

func isPolicy(name string) bool {
	return strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml")
}

// readFile reads a file of a size that policies have. It opens nothing that
// could make it wait, such as a pipe.
func readFile(fsys fs.FS, name string, info fs.FileInfo) (File, error) {
	switch {
	case !info.Mode().IsRegular():
		return File{}, fmt.Errorf("%s is not a regular file", name)
	case info.Size() > MaxFileSize:
		return File{}, fmt.Errorf("%s has %d bytes; at most %d are allowed", name, info.Size(), MaxFileSize)
	}
	text, err := fs.ReadFile(fsys, name)
	return File{Name: name, Text: text}, err
}
