package algorithm

import (
	"fmt"
	"strings"
)

// Algorithm is a way to decide whether hits fit a limit: a Go function and its
// twin in Lua, which decide alike. Values are immutable.
type Algorithm struct {
	// Name is what policy files call it.
	Name string

	// Lua is the source of the twin: a chunk that returns a table with the
	// functions repair, decide and expiry.
	Lua string

	// chargesDenied says that Reference counting charges denied hits.
	chargesDenied bool

	// bucket says that the limit has a burst and is counted in units.
	bucket bool

	// fit computes the numbers of a limit, or says why there are none.
	fit func(l *Limit) error

	// repair brings a state back to now that stands more than one window
	// ahead of it, keeping its count, and says whether it did.
	repair func(l *Limit, s *State, now int64) bool

	// decide judges hits by a repaired state and charges it. A state that is
	// not charged stays as it is, so that a look cannot move a key on in time.
	decide func(l *Limit, s *State, now, hits int64, how charge) Decision

	// expiry is the instant from which a state equals one never seen.
	expiry func(l *Limit, s *State) int64
}

// charge says what becomes of the hits that an algorithm has judged.
type charge uint8

const (
	take     charge = iota // charged if they fit
	spend                  // charged in full, fit or not
	giveBack               // returned
)

// All are the algorithms, in the order in which scripts number them.
var All = []*Algorithm{FixedWindow, SlidingWindowLog, SlidingWindowCounter, TokenBucket, LeakyBucket}

// Names returns the names of [All].
func Names() []string {
	names := make([]string, len(All))
	for i, a := range All {
		names[i] = a.Name
	}
	return names
}

func byName(name string) (*Algorithm, error) {
	if name == "" {
		return FixedWindow, nil
	}
	for _, a := range All {
		if a.Name == name {
			return a, nil
		}
	}
	return nil, &SpecError{"algorithm", fmt.Sprintf("%q is not an algorithm; one of %s", name, strings.Join(Names(), ", "))}
}

// fitTicks gives a limit the finest tick that its window is a whole number of
// and in which requests × window stays exact.
func fitTicks(l *Limit, exact func(l *Limit) bool) error {
	for _, tick := range ticks {
		if l.windowµ%tick != 0 {
			break
		}
		l.tick, l.window = tick, l.windowµ/tick
		if exact(l) {
			return nil
		}
	}
	field := "requests_per_unit"
	if l.Capacity > l.Requests {
		field = "burst"
	}
	return &SpecError{field, fmt.Sprintf("%d is too large for %s with a window of %v, at most %d",
		l.Capacity, l.Algorithm.Name, l.Window, maxExact/l.window-1)}
}
