package backend

import (
	"context"
	"slices"
	"time"
)

// lagEvery is how often a process looks whether it is late, and lagMemory how
// many times count. What timers are late by anyway, is no lag.
const (
	lagEvery  = 10 * time.Millisecond
	lagMemory = 10
	lagUsual  = time.Millisecond
)

// lag is how late a process that wants to run does run, which is what its
// connections wait for, too: the least of the last times. So a pause, of the
// machine or for garbage, is none; a processor that is short for a tenth of a
// second is. The zero value is not late.
type lag struct {
	late [lagMemory]time.Duration
	next int
}

// add takes note of a time and returns the lag.
func (l *lag) add(late time.Duration) time.Duration {
	l.late[l.next] = max(0, late-lagUsual)
	l.next = (l.next + 1) % lagMemory
	return slices.Min(l.late[:])
}

// watchLag tells the lag again and again, until the context ends.
func watchLag(ctx context.Context, tell func(time.Duration)) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var l lag
	for {
		began := time.Now()
		timer.Reset(lagEvery)
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			tell(l.add(time.Since(began) - lagEvery))
		}
	}
}
