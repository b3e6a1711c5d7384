package integration

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// load is a steady stream of requests from several goroutines.
type load struct {
	sent atomic.Int64
	halt chan struct{}
	done sync.WaitGroup

	mu       sync.Mutex
	problems []string // guarded by mu; the first few
}

// mostRequests bounds a load that a test forgets to stop.
const mostRequests = 100_000

// startLoad sends requests through each client, one after the other with a pause of 2 ms, until stop. A request that fails,
// or whose answer does not pass the check, is a problem.
func startLoad(t *testing.T, clients []*client, path string, headers []string, check func(answer) error) *load {
	t.Helper()
	l := &load{halt: make(chan struct{})}
	for _, c := range clients {
		l.done.Go(func() {
			for range mostRequests / len(clients) {
				select {
				case <-l.halt:
					return
				case <-time.After(2 * time.Millisecond):
				}
				l.sent.Add(1)
				got, err := c.get(path, headers...)
				if err == nil {
					err = check(got)
				}
				if err != nil {
					l.problem(fmt.Sprintf("request %d: %v", l.sent.Load(), err))
				}
			}
		})
	}
	t.Cleanup(func() { l.stop(t) })
	return l
}

func (l *load) problem(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.problems) < 10 {
		l.problems = append(l.problems, text)
	}
}

// stop ends the load, waits for the answers that are due, and fails the test if there was a problem. It returns how many
// requests were sent. It may be called again.
func (l *load) stop(t *testing.T) int {
	t.Helper()
	select {
	case <-l.halt:
		return int(l.sent.Load())
	default:
	}
	close(l.halt)
	l.done.Wait()
	for _, problem := range l.problems {
		t.Error(problem)
	}
	return int(l.sent.Load())
}
