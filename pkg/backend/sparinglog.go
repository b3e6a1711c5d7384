package backend

import (
	"log/slog"
	"sync"
	"time"
)

// sparingLog logs at most one line in a while, however often it is asked, and
// says with it how many it left out.
type sparingLog struct {
	log   *slog.Logger
	every time.Duration

	mu      sync.Mutex // protects what follows
	next    time.Time
	skipped int
}

func newSparingLog(log *slog.Logger, every time.Duration) *sparingLog {
	if log == nil {
		log = slog.Default()
	}
	return &sparingLog{log: log, every: every}
}

// Warn logs a line, or counts it.
func (l *sparingLog) Warn(message string, args ...any) {
	l.mu.Lock()
	now := time.Now()
	if now.Before(l.next) {
		l.skipped++
		l.mu.Unlock()
		return
	}
	skipped := l.skipped
	l.next, l.skipped = now.Add(l.every), 0
	l.mu.Unlock()
	if skipped > 0 {
		args = append(args, "similar_lines_left_out", skipped)
	}
	l.log.Warn(message, args...)
}
