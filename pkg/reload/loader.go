package reload

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ratelimitd/ratelimitd/pkg/descriptors"
)

// Options says what a [Loader] loads, and who gets it.
type Options struct {
	// Dir is the policy directory. It need not exist yet.
	Dir string

	// Files is read once in place of a directory when Dir is empty.
	Files fs.FS

	// Compile goes to [descriptors.Compile].
	Compile descriptors.Options

	// Apply takes each good set of rules, one after the other.
	Apply func(*descriptors.Rules)

	Log        *slog.Logger
	Registerer prometheus.Registerer
}

// Status is what a [Loader] has achieved so far.
type Status struct {
	// Rules are in force; nil before the first good load.
	Rules *descriptors.Rules

	// Since is when they came into force.
	Since time.Time

	// Err is why the newest files are not in force, nil if they are.
	Err error

	// Failed is when Err was first found.
	Failed time.Time
}

// Loader reads policy files and hands the rules on. Its methods may be called
// from several goroutines.
type Loader struct {
	o       Options
	metrics *metrics

	mu     sync.Mutex  // held while files are read and compiled, which may take long
	tried  fingerprint // of the files that status is about
	good   fingerprint // of the files that are in force
	seen   fingerprint // of files that differ from tried, but may still change
	change time.Time   // when they began to differ; zero: they do not

	// status is replaced with mu held, and read without: health is asked for
	// while files are compiled.
	status atomic.Pointer[Status]
}

// fingerprint is equal for equal files, and for equal errors of reading.
type fingerprint [sha256.Size]byte

// New makes a loader that has loaded nothing. It fails when the metrics are
// registered already.
func New(o Options) (*Loader, error) {
	l := &Loader{o: o}
	l.status.Store(&Status{})
	l.metrics = newMetrics(l)
	if err := o.Registerer.Register(l.metrics); err != nil {
		return nil, fmt.Errorf("reload: %w", err)
	}
	return l, nil
}

// Status returns the state of things. It never waits for a load.
func (l *Loader) Status() Status { return *l.status.Load() }

// Load takes the files as they are now. It does nothing if they have not
// changed since the last time.
func (l *Loader) Load() {
	l.mu.Lock()
	defer l.mu.Unlock()
	files, sum, err := l.read()
	if sum != l.tried {
		l.take(files, sum, err)
	}
}

const (
	// settle is how long files must stay as they are before they are taken.
	settle = 75 * time.Millisecond

	// patience is after what time files that never stay as they are get
	// taken all the same.
	patience = time.Second
)

// check takes changed files if they were the same at the last check. It
// reports whether they changed just now, so that a check is due soon.
func (l *Loader) check(now time.Time) (again bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	files, sum, err := l.read()
	switch {
	case sum == l.tried:
		l.change = time.Time{}
		return false
	case l.change.IsZero():
		l.change = now
	case sum == l.seen || now.Sub(l.change) >= patience:
		l.take(files, sum, err)
		return false
	}
	l.seen = sum
	return true
}

// take compiles files and hands the rules on, or keeps the error.
func (l *Loader) take(files []descriptors.File, sum fingerprint, err error) {
	l.tried, l.change = sum, time.Time{}
	if err == nil && sum == l.good {
		status := l.Status()
		status.Err = nil
		l.status.Store(&status)
		l.o.Log.Info("policy files are again those in force", "revision", status.Rules.Revision())
		return
	}
	var rules *descriptors.Rules
	if err == nil {
		rules, err = descriptors.Compile(files, l.o.Compile)
	}
	if err != nil {
		l.refuse(err)
		return
	}
	l.o.Apply(rules)
	l.good = sum
	l.status.Store(&Status{Rules: rules, Since: time.Now()})
	l.metrics.loaded.Inc()
	l.o.Log.Info("policies in force", "revision", rules.Revision(), "files", len(files), "domains", len(rules.Domains()), "limits", len(rules.Limits()))
}

// maxLines bounds how many errors of one load are logged.
const maxLines = 20

// refuse keeps the rules in force and says why.
func (l *Loader) refuse(err error) {
	l.metrics.refused.Inc()
	status := l.Status()
	if status.Err != nil && status.Err.Error() == err.Error() {
		return // said before
	}
	status.Err, status.Failed = err, time.Now()
	l.status.Store(&status)

	keeps := "no rules are in force"
	if status.Rules != nil {
		keeps = "the last good rules stay in force"
	}
	lines := []error{err}
	if list, ok := errors.AsType[*descriptors.ErrorList](err); ok {
		lines = lines[:0]
		for _, e := range list.Errors {
			lines = append(lines, e)
		}
	}
	for _, line := range lines[:min(len(lines), maxLines)] {
		l.o.Log.Error("policy refused; "+keeps, "error", line)
	}
	if more := len(lines) - maxLines; more > 0 {
		l.o.Log.Error("policy refused; "+keeps, "more_errors", more)
	}
}

// read reads all files. A directory without any is an error: a mount that
// went away must not lift every limit.
func (l *Loader) read() (files []descriptors.File, sum fingerprint, err error) {
	if l.o.Dir == "" {
		files, err = descriptors.ReadFS(l.o.Files)
	} else if files, err = descriptors.ReadDir(l.o.Dir); err == nil && len(files) == 0 {
		err = fmt.Errorf("no policy files (*.yaml, *.yml) in %s", l.o.Dir)
	}
	hash := sha256.New()
	add := func(text []byte) {
		_ = binary.Write(hash, binary.BigEndian, int64(len(text)))
		hash.Write(text)
	}
	if err != nil {
		add([]byte(err.Error()))
	}
	for _, file := range files {
		add([]byte(file.Name))
		add(file.Text)
	}
	return files, fingerprint(hash.Sum(nil)), err
}
