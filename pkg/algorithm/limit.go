package algorithm

import (
	"fmt"
	"time"
)

const (
	// maxExact bounds every product of hits and ticks. Sums of two such
	// products are below 2^53 and so exact in a double.
	maxExact = 1 << 52

	// MaxRequests is the largest number of requests a limit may have, as
	// the protocol's uint32 holds it.
	MaxRequests = 1<<32 - 1

	// MaxLogRequests is the largest limit of a sliding window log, which
	// keeps an instant for each hit: about 10 bytes each in Redis, 8 in
	// memory.
	MaxLogRequests = 10_000

	// MinWindow is the shortest window of a limit.
	MinWindow = time.Millisecond

	// MaxWindow is the longest, 100 years.
	MaxWindow = 100 * 365 * 24 * time.Hour
)

// Spec is a limit as it is asked for. Build a [Limit] of it with [NewLimit].
type Spec struct {
	// Algorithm is a name of [All]; empty is fixed_window.
	Algorithm string

	// Requests are allowed per Window. 0 denies everything.
	Requests uint64
	Window   time.Duration

	// Burst is the capacity of a bucket; 0 means Requests. Other algorithms
	// have none.
	Burst uint64

	// Calendar, if not nil, sets the bounds of a fixed window. Window is
	// then its nominal length.
	Calendar *Calendar

	// Overdraw charges a cost in full even when it does not fit.
	Overdraw bool
}

// SpecError says which field of a [Spec] cannot be, and what could.
type SpecError struct {
	Field   string // as in a policy file: algorithm, requests_per_unit, window, burst, calendar
	Problem string
}

func (e *SpecError) Error() string { return e.Field + ": " + e.Problem }

// Limit is a checked limit with the numbers that its algorithm works with. It
// is immutable and safe for concurrent use.
type Limit struct {
	Algorithm *Algorithm
	Requests  int64
	Window    time.Duration
	Calendar  *Calendar
	Overdraw  bool

	// Capacity is the most hits that fit at once: the burst of a bucket,
	// Requests otherwise.
	Capacity int64

	tick    int64 // µs; windowµs = window × tick
	windowµ int64 // µs
	window  int64 // ticks

	// A bucket's level is counted in units: one hit is scale units, drip
	// units leave it per tick, and drip / scale = Requests / window reduced.
	// (Capacity + 1) × scale ≤ 2^52.
	drip, scale int64

	// maxUsed saturates what a key may hold beyond its capacity: hits, or a
	// bucket's units.
	maxUsed int64

	whole *Limit // of which this is a share; nil: of none
}

// NewLimit checks a spec and computes the limit's numbers. All errors are
// *SpecError.
func NewLimit(spec Spec) (*Limit, error) {
	algorithm, err := byName(spec.Algorithm)
	if err != nil {
		return nil, err
	}
	l := &Limit{
		Algorithm: algorithm,
		Requests:  int64(min(spec.Requests, MaxRequests)),
		Window:    spec.Window,
		Calendar:  spec.Calendar,
		Overdraw:  spec.Overdraw,
		windowµ:   spec.Window.Microseconds(),
	}
	l.Capacity = l.Requests
	switch {
	case spec.Requests > MaxRequests:
		return nil, &SpecError{"requests_per_unit", fmt.Sprintf("%d is too large, at most %d", spec.Requests, uint64(MaxRequests))}
	case spec.Window < MinWindow || spec.Window > MaxWindow:
		return nil, &SpecError{"window", fmt.Sprintf("%v is out of range, at least 1ms and at most %dh (100 years)", spec.Window, MaxWindow/time.Hour)}
	case spec.Window%time.Microsecond != 0:
		return nil, &SpecError{"window", fmt.Sprintf("%v is not a whole number of microseconds", spec.Window)}
	case spec.Burst != 0 && !algorithm.bucket:
		return nil, &SpecError{"burst", fmt.Sprintf("only token_bucket and leaky_bucket have a burst, not %s", algorithm.Name)}
	case spec.Burst > MaxRequests:
		return nil, &SpecError{"burst", fmt.Sprintf("%d is too large, at most %d", spec.Burst, uint64(MaxRequests))}
	case spec.Burst != 0 && spec.Requests == 0:
		return nil, &SpecError{"burst", "a bucket with requests_per_unit 0 never refills, so it can have no burst"}
	case spec.Calendar != nil && algorithm != FixedWindow:
		return nil, &SpecError{"calendar", fmt.Sprintf("only fixed_window follows the calendar, not %s", algorithm.Name)}
	}
	if spec.Burst != 0 {
		l.Capacity = int64(spec.Burst)
	}
	if err := algorithm.fit(l); err != nil {
		return nil, err
	}
	return l, nil
}

// ticks are the lengths, in microseconds, that a tick may have, finest first.
var ticks = [...]int64{1, 1_000, 1_000_000}
