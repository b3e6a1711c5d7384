package algorithm

import "time"

// Outcome is what became of an ask. The zero value is Undecided, so that a
// decision nobody filled in never lets a request through.
type Outcome uint8

const (
	// Undecided means that the store did not decide; Decision.Err says why.
	Undecided Outcome = iota
	Allowed           // the hits fit
	Denied            // they do not
)

func (o Outcome) String() string {
	return [...]string{"undecided", "allowed", "denied"}[o]
}

// Decision is the answer to one ask. Hits are whole, durations are whole
// microseconds.
type Decision struct {
	Outcome Outcome

	// Never is set on a denial that waiting does not cure: the hits are more
	// than the limit holds.
	Never bool

	// Degraded is set when a failure policy answered in place of the store.
	Degraded bool

	// Known is set on a denial that the store was not asked for, since it had
	// denied the same a moment before. Nothing was charged.
	Known bool

	// Before and After are the hits in use before and after the ask,
	// rounded up. They are equal when nothing was charged.
	Before, After int64

	// Remaining = max(0, capacity − After), rounded down.
	Remaining int64

	// RetryAfter is, for a denial, the least wait after which the same ask
	// would pass if nobody else came; one window when it never would.
	RetryAfter time.Duration

	// Reset is the wait until the key equals one that was never seen.
	Reset time.Duration

	// Delay is the time that a leaky bucket's queue takes to reach the hits;
	// 0 for the first, and for other algorithms.
	Delay time.Duration

	// Err is why the store did not decide, else nil.
	Err error
}
