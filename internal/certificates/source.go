package certificates

import (
	"log/slog"
	"sync"
)

// Source reads files again for each connection, of which there are few. Safe
// for concurrent use.
type Source struct {
	files Files
	log   *slog.Logger

	mu        sync.Mutex
	good      *Loaded // guarded by mu, as is complaint; nil: none yet
	complaint string  // what was last logged; "": the files are good
	loads     Loads
}

// Loads tell how often files were new.
type Loads struct {
	Attempts, Failures uint64 // all, and those of them in which the files were bad
	Files              int
}

// Loads returns how often they were until now.
func (s *Source) Loads() Loads {
	s.mu.Lock()
	defer s.mu.Unlock()
	loads := s.loads
	loads.Files = len(s.files.paths())
	return loads
}

// NewSource returns a source that has read nothing yet. The log tells once of
// files that have become bad, and of new ones.
func NewSource(files Files, log *slog.Logger) *Source { return &Source{files: files, log: log} }

// Current is what the files hold, or held when they were last good: they are
// replaced one after the other, and not always at once. The error is that of
// files which have never been good.
func (s *Source) Current() (*Loaded, error) {
	loaded, err := s.load()
	s.mu.Lock()
	defer s.mu.Unlock()
	isNew := err == nil && (s.good == nil || !s.good.texts.equal(&loaded.texts))
	switch {
	case err != nil && s.good == nil:
		s.loads.Attempts, s.loads.Failures = s.loads.Attempts+1, s.loads.Failures+1
		return nil, err
	case err != nil:
		if text := err.Error(); text != s.complaint {
			s.complaint = text
			s.loads.Attempts, s.loads.Failures = s.loads.Attempts+1, s.loads.Failures+1
			s.log.Error("the certificates that were last good stay in use", "error", err)
		}
		return s.good, nil
	case isNew && s.good != nil:
		s.log.Info("new certificates are in use", "files", s.files.paths())
	}
	if isNew {
		s.loads.Attempts++
	}
	s.good, s.complaint = loaded, ""
	return loaded, nil
}

// load reads the files. What is as before is not parsed again.
func (s *Source) load() (*Loaded, error) {
	texts, err := s.files.read()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	good := s.good
	s.mu.Unlock()
	if good != nil && good.texts.equal(&texts) {
		return good, nil
	}
	return s.files.parse(texts)
}

func (f *Files) paths() []string {
	var all []string
	for _, path := range [...]string{f.Cert, f.Key, f.CA} {
		if path != "" {
			all = append(all, path)
		}
	}
	return all
}
