package programtest

import (
	"bytes"
	"strings"
	"sync"
)

// Journal keeps what a program writes; when that is very
// long, its end. The zero value is empty. It is safe for concurrent use.
type Journal struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

// most is how many bytes a journal keeps, about.
const most = 1 << 20

// Write implements [io.Writer].
func (j *Journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.text.Len() > most {
		j.text.Reset()
	}
	return j.text.Write(p)
}

// String returns all that is kept.
func (j *Journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// Tail returns the last n lines.
func (j *Journal) Tail(n int) string {
	lines := strings.Split(strings.TrimSuffix(j.String(), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
