package reload

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"
)

// interval is how often the files are read without any event.
const interval = time.Second

// Run loads changed files until ctx is done. Without a directory to watch it
// only waits. Call [Loader.Load] first to have rules at once.
func (l *Loader) Run(ctx context.Context) error {
	if l.o.Dir == "" {
		<-ctx.Done()
		return nil
	}
	events, err := l.watch()
	if err != nil { // out of inotify instances, say
		l.o.Log.Warn("the file system tells of no changes; policy files are read once a second", "error", err)
	} else {
		defer events.close()
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	soon := time.NewTimer(0) // what changed since Load is found at once
	defer soon.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case event := <-events.changes():
			if events.concerns(event) {
				soon.Reset(settle)
			}
			continue
		case err := <-events.overflow():
			l.o.Log.Debug("changes may have gone unnoticed; the policy files are read again", "error", err)
		case <-soon.C:
		case <-tick.C:
		}
		if l.check(time.Now()) {
			soon.Reset(settle)
		}
		events.follow()
	}
}

// events tells of changes in a directory, its subdirectories, the directories
// that links in it lead to, and the directory's own name. Nil tells nothing.
type events struct {
	dir     string // absolute
	watcher *fsnotify.Watcher
}

// maxWatched bounds the directories that are watched. In others, changes are
// found by reading.
const maxWatched = 500

func (l *Loader) watch() (*events, error) {
	dir, err := filepath.Abs(l.o.Dir)
	if err != nil {
		return nil, err
	}
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	e := &events{dir: dir, watcher: watcher}
	e.follow()
	return e, nil
}

func (e *events) close() { _ = e.watcher.Close() }

func (e *events) changes() <-chan fsnotify.Event {
	if e == nil {
		return nil
	}
	return e.watcher.Events
}

func (e *events) overflow() <-chan error {
	if e == nil {
		return nil
	}
	return e.watcher.Errors
}

// concerns reports whether an event can change the policy. The directories
// above the policy directory are watched for its name alone.
func (e *events) concerns(event fsnotify.Event) bool {
	for above := e.dir; above != filepath.Dir(above); above = filepath.Dir(above) {
		if event.Name == above {
			return true
		}
	}
	return filepath.Dir(event.Name) != e.parent()
}

// parent is the nearest directory above that exists.
func (e *events) parent() string {
	for above := filepath.Dir(e.dir); ; above = filepath.Dir(above) {
		if _, err := os.Stat(above); err == nil || above == filepath.Dir(above) {
			return above
		}
	}
}

// follow watches the directories that matter now, and no others. Errors are
// left to the reading once a second.
func (e *events) follow() {
	if e == nil {
		return
	}
	wanted := append([]string{e.parent()}, directories(e.dir)...)
	watched := e.watcher.WatchList()
	for _, dir := range watched {
		if !slices.Contains(wanted, dir) {
			_ = e.watcher.Remove(dir)
		}
	}
	for _, dir := range wanted {
		if !slices.Contains(watched, dir) {
			_ = e.watcher.Add(dir)
		}
	}
}

// directories returns dir, the directories in it, and those that links in
// them lead to.
func directories(dir string) []string {
	t := tree{}
	t.walk(dir)
	return t.all
}

// tree collects directories, each once.
type tree struct{ all []string }

// add reports whether dir is new.
func (t *tree) add(dir string) bool {
	if len(t.all) == maxWatched || slices.Contains(t.all, dir) {
		return false
	}
	t.all = append(t.all, dir)
	return true
}

// walk adds dir and what it leads to. What cannot be read leads nowhere.
func (t *tree) walk(dir string) {
	if !t.add(dir) {
		return
	}
	entries, _ := os.ReadDir(dir)
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		switch {
		case entry.IsDir():
			t.walk(path)
		case entry.Type() == fs.ModeSymlink:
			t.follow(path)
		}
	}
}

// follow adds the directory that a link leads to, or that its file is in.
func (t *tree) follow(link string) {
	target, err := filepath.EvalSymlinks(link)
	if err != nil {
		return
	}
	if info, err := os.Stat(target); err == nil && info.IsDir() {
		t.walk(target)
	} else {
		t.add(filepath.Dir(target))
	}
}
