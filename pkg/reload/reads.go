package reload

import "sync/atomic"

// Reads tell how often a [Loader] took what its directory holds.
type Reads struct {
	Attempts, Failures uint64 // all, and those of them in which something could not be read
	Files              int    // of the last attempt
}

// reads counts them, to be asked for while files are compiled.
type reads struct {
	attempts, failures atomic.Uint64
	files              atomic.Int64
}

// note counts an attempt.
func (l *Loader) note(files set, err error) {
	if l.o.Dir == "" {
		return
	}
	l.reads.files.Store(int64(len(files.files)))
	if err != nil {
		l.reads.failures.Add(1)
	}
	l.reads.attempts.Add(1)
}

// Reads returns how often it was until now: never, if there is no directory. It
// never waits for a load.
func (l *Loader) Reads() Reads {
	failures := l.reads.failures.Load() // first: what failed was an attempt
	return Reads{Attempts: l.reads.attempts.Load(), Failures: failures, Files: int(l.reads.files.Load())}
}
