package xds

import (
	"cmp"
	"time"
)

// Backoff is how long to wait before a control plane is asked again. Each wait
// is twice the one before, and shorter by up to a third of itself, by chance,
// so that the replicas of a service do not all come at once.
type Backoff struct {
	// Initial is the first wait; 0 is a second.
	Initial time.Duration

	// Max is the longest; 0 is 30 seconds.
	Max time.Duration
}

// wait is the time before the next try, after that many without an answer.
// chance is from 0 to 1.
func (b Backoff) wait(tries int, chance float64) time.Duration {
	most := cmp.Or(b.Max, 30*time.Second)
	wait := cmp.Or(b.Initial, time.Second)
	for ; tries > 0 && wait < most; tries-- {
		wait *= 2
	}
	wait = min(wait, most)
	return wait - time.Duration(chance*float64(wait)/3)
}
