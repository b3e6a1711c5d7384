package reload

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
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

	// Choice says which of its files are policies.
	Choice descriptors.Choice

	// MayBeEmpty takes a directory without policy files for policies of no
	// domain, and MayBeMissing one that is not there, as long as it never had
	// any. Otherwise both are errors: a mount that went away must not lift every
	// limit.
	MayBeEmpty, MayBeMissing bool

	// Files is read once in place of a directory when Dir is empty. Without
	// either, all policies come by [Loader.Offer].
	Files fs.FS

	// MaxSize is how many bytes the files may have together; 0 means
	// [descriptors.DefaultMaxSize].
	MaxSize int64

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

	// Err is why the newest policies are not in force, nil if they are.
	Err error

	// Failed is when Err was first found.
	Failed time.Time
}

// Loader reads policy files, is offered others, and hands the rules of both
// on. Its methods may be called from several goroutines.
type Loader struct {
	o       Options
	metrics *metrics

	mu      sync.Mutex  // held while files are read and compiled, which may take long
	local   part        // what the directory holds
	offered part        // what [Loader.Offer] brought
	seen    fingerprint // of local files that are new, but may still change
	change  time.Time   // when they began to differ; zero: they do not

	// status is replaced with mu held, and read without: health is asked for
	// while files are compiled.
	status atomic.Pointer[Status]
	reads  reads
}

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
	if l.o.Dir == "" && l.o.Files == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if files, err := l.read(); files.sum != l.local.newest.sum {
		l.take(&l.local, &l.offered, files, err)
	}
}

// Offer takes policies that do not stand in files, in place of those that were
// offered before. Together with the files they make the rules. If they do not
// compile, the error says why, and nothing changes; none at all is fine.
func (l *Loader) Offer(policies []descriptors.File) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if files := newSet(policies, nil); files.sum != l.offered.newest.sum {
		l.take(&l.offered, &l.local, files, nil)
	}
	return l.offered.err
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
	files, err := l.read()
	switch {
	case files.sum == l.local.newest.sum:
		l.change = time.Time{}
		return false
	case l.change.IsZero():
		l.change = now
	case files.sum == l.seen || now.Sub(l.change) >= patience:
		l.take(&l.local, &l.offered, files, err)
		return false
	}
	l.seen = files.sum
	return true
}

// take puts the newest files of a part in force, beside what the other one has
// in force, or keeps the error.
func (l *Loader) take(p, other *part, files set, err error) {
	if p == &l.local {
		l.change = time.Time{}
		l.note(files, err)
	}
	p.newest = files
	if err == nil {
		err = l.enforce(p, other)
	}
	if err != nil {
		l.refuse(p, err)
	}
}

// enforce makes rules of the newest files of a part.
func (l *Loader) enforce(p, other *part) error {
	if other.err != nil && other.newest.files != nil && l.compile(p, other, other.newest) == nil {
		return nil // what was wrong with the other part is mended too
	}
	if p.newest.sum == p.inForce.sum {
		p.err = nil
		l.report(l.Status().Rules, l.Status().Since)
		l.metrics.loaded.Inc()
		l.o.Log.Info("policies are again those in force", "revision", l.Status().Rules.Revision())
		return nil
	}
	return l.compile(p, other, other.inForce)
}

// compile hands on the rules of the newest files of a part and those of the
// other one, if they are good.
func (l *Loader) compile(p, other *part, others set) error {
	files := slices.Concat(p.newest.files, others.files)
	if p == &l.offered {
		files = slices.Concat(others.files, p.newest.files)
	}
	rules, err := descriptors.Compile(files, l.o.Compile)
	if err != nil {
		return err
	}
	l.o.Apply(rules)
	p.enforced(p.newest)
	if others.sum == other.newest.sum {
		other.enforced(others)
	}
	l.report(rules, time.Now())
	l.metrics.loaded.Inc()
	l.warn(rules.Warnings())
	l.o.Log.Info("policies in force", "revision", rules.Revision(), "files", len(files), "domains", len(rules.Domains()), "limits", len(rules.Limits()))
	return nil
}

// report publishes which rules are in force since when, and what is not.
func (l *Loader) report(rules *descriptors.Rules, since time.Time) {
	status := Status{Rules: rules, Since: since}
	for _, p := range [...]*part{&l.local, &l.offered} {
		switch {
		case p.err == nil:
		case status.Err == nil:
			status.Err, status.Failed = p.err, p.failed
		default:
			status.Err = errors.Join(status.Err, p.err)
		}
	}
	l.status.Store(&status)
}

// maxLines bounds how many errors of one load are logged.
const maxLines = 20

// refuse keeps the rules in force and says why.
func (l *Loader) refuse(p *part, err error) {
	l.metrics.refused.Inc()
	if p.err != nil && p.err.Error() == err.Error() {
		return // said before
	}
	p.err, p.failed = err, time.Now()
	status := l.Status()
	l.report(status.Rules, status.Since)

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

// warn says what the policies have that does not mean what it seems to.
func (l *Loader) warn(warnings []*descriptors.Error) {
	for _, w := range warnings[:min(len(warnings), maxLines)] {
		l.o.Log.Warn("policy taken, but", "warning", w)
	}
	if more := len(warnings) - maxLines; more > 0 {
		l.o.Log.Warn("policy taken, but", "more_warnings", more)
	}
}

// read reads all files.
func (l *Loader) read() (set, error) {
	var files []descriptors.File
	var err error
	if l.o.Dir == "" {
		files, err = descriptors.ReadFS(l.o.Files, l.o.MaxSize)
	} else {
		files, err = l.o.Choice.ReadDir(l.o.Dir, l.o.MaxSize)
	}
	switch never := len(l.local.inForce.files) == 0; {
	case l.o.MayBeMissing && never && errors.Is(err, fs.ErrNotExist):
		err = nil
	case err != nil || len(files) > 0 || l.o.Dir == "" || l.o.MayBeEmpty && never:
	case l.o.Choice.Any:
		err = fmt.Errorf("no policy files in %s", l.o.Dir)
	default:
		err = fmt.Errorf("no policy files (*.yaml, *.yml) in %s", l.o.Dir)
	}
	return newSet(files, err), err
}
