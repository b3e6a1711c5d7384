package algorithm

import (
	_ "embed"
	"time"
)

//go:embed fixedwindow.lua
var fixedWindowLua string

// FixedWindow counts hits in windows that begin at multiples of the window
// since the epoch, or at the bounds of a calendar.
//
// Worst case: twice the limit within one window's length, half of it on either
// side of a boundary.
var FixedWindow = &Algorithm{
	Name:          "fixed_window",
	Lua:           fixedWindowLua,
	chargesDenied: true,
	fit:           fitFixedWindow,
	repair:        repairFixedWindow,
	decide:        decideFixedWindow,
	expiry:        expiryFixedWindow,
}

// fitFixedWindow never fails: only whole hits are compared.
func fitFixedWindow(l *Limit) error {
	l.tick, l.window, l.maxUsed = 1, l.windowµ, maxExact
	return nil
}

// bounds returns the window that holds now.
func (l *Limit) bounds(now int64) (begin, end int64) {
	if l.Calendar != nil {
		return l.Calendar.Window(now)
	}
	begin = now - now%l.windowµ
	return begin, begin + l.windowµ
}

func repairFixedWindow(l *Limit, s *State, now int64) bool {
	if s.Used == 0 || s.At-now <= l.windowµ {
		return false
	}
	s.At, s.Aux = l.bounds(now)
	return true
}

func decideFixedWindow(l *Limit, s *State, now, hits int64, how charge) Decision {
	next := *s
	if begin, end := l.bounds(now); s.Used == 0 || s.At < begin {
		next = State{At: begin, Aux: end}
	}
	before := next.Used
	fits := before+hits <= l.Requests
	switch {
	case how == giveBack:
		next.Used = max(0, before-hits)
	case how == spend || fits:
		next.Used = min(before+hits, l.maxUsed)
	}
	d := l.decision(fits || how == giveBack, hits, before, next.Used)
	if d.Outcome == Denied && !d.Never {
		d.RetryAfter = micros(next.Aux - now)
	}
	d.Reset = untilReset(expiryFixedWindow(l, &next), now)
	if next.Used != before {
		*s = next
	}
	return d
}

func expiryFixedWindow(_ *Limit, s *State) int64 {
	if s.Used == 0 {
		return 0
	}
	return s.Aux
}

// decision fills in what all algorithms say alike. A denial of hits that the
// limit could never hold is marked, with one window to retry after.
func (l *Limit) decision(fits bool, hits, before, after int64) Decision {
	d := Decision{Outcome: Allowed, Before: before, After: after, Remaining: max(0, l.Capacity-after)}
	if !fits {
		d.Outcome = Denied
		if hits > l.Capacity {
			d.Never, d.RetryAfter = true, l.Window
		}
	}
	return d
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

// untilReset is the wait from now until a state's expiry.
func untilReset(expiry, now int64) time.Duration { return micros(max(0, expiry-now)) }
