package algorithm

import _ "embed"

//go:embed slidingcounter.lua
var slidingCounterLua string

// SlidingWindowCounter estimates the hits of the last window from two fixed
// ones: those of the current window, and those of the one before weighted with
// the share of it that the last window still covers:
//
//	weight = previous × (window − elapsed) / window + current
//
// It compares products, so nothing is rounded. A hit passes while weight +
// hits ≤ requests.
//
// Worst case: nearly twice the limit within one window's length, when all hits
// of a window came at its end, since the estimate takes them as spread evenly.
var SlidingWindowCounter = &Algorithm{
	Name:          "sliding_window_counter",
	Lua:           slidingCounterLua,
	chargesDenied: true,
	fit:           fitSlidingCounter,
	repair:        repairSlidingCounter,
	decide:        decideSlidingCounter,
	expiry:        expirySlidingCounter,
}

// fitSlidingCounter keeps requests × window below 2^52.
func fitSlidingCounter(l *Limit) error {
	err := fitTicks(l, func(l *Limit) bool { return l.Requests < maxExact/l.window })
	l.maxUsed = maxExact / max(1, l.window)
	return err
}

func repairSlidingCounter(l *Limit, s *State, now int64) bool {
	if s.Used == 0 && s.Aux == 0 || s.At-now <= l.windowµ {
		return false
	}
	s.At = now - now%l.windowµ
	return true
}

// rollSlidingCounter moves a state on to the window that holds now, and
// returns the ticks since that window began. A state ahead of now stands still
// at its own beginning.
func rollSlidingCounter(l *Limit, s State, now int64) (rolled State, elapsed int64) {
	begin := now - now%l.windowµ
	switch {
	case s.Used == 0 && s.Aux == 0 || s.At < begin-l.windowµ:
		s = State{At: begin}
	case s.At == begin-l.windowµ:
		s = State{At: begin, Aux: s.Used}
	}
	s.Used, s.Aux = min(s.Used, l.maxUsed), min(s.Aux, l.maxUsed)
	return s, max(0, now-s.At) / l.tick
}

func decideSlidingCounter(l *Limit, s *State, now, hits int64, how charge) Decision {
	rolled, elapsed := rollSlidingCounter(l, *s, now)
	carried := rolled.Aux * (l.window - elapsed)
	before := rolled.Used + ceilDiv(carried, l.window)
	fits := rolled.Used+hits <= l.Requests && carried+(rolled.Used+hits)*l.window <= l.Requests*l.window
	next := rolled
	switch {
	case how == giveBack:
		// Off the current window first, then off the one before.
		fromCurrent := min(hits, rolled.Used)
		next.Used -= fromCurrent
		next.Aux = max(0, rolled.Aux-(hits-fromCurrent))
	case how == spend || fits:
		next.Used = min(rolled.Used+hits, l.maxUsed)
	}
	after := next.Used + ceilDiv(next.Aux*(l.window-elapsed), l.window)
	d := l.decision(fits || how == giveBack, hits, before, after)
	if d.Outcome == Denied && !d.Never {
		d.RetryAfter = micros(next.At + retrySlidingCounter(l, &next, hits)*l.tick - now)
	}
	d.Reset = untilReset(expirySlidingCounter(l, &next), now)
	if next.Used != rolled.Used || next.Aux != rolled.Aux {
		*s = next
	}
	return d
}

// retrySlidingCounter returns the ticks from the beginning of the state's
// window until hits fit: in this window, as the weight of the one before fades,
// or in the next, as that of this one does.
func retrySlidingCounter(l *Limit, s *State, hits int64) int64 {
	if s.Used+hits <= l.Requests {
		return l.window - (l.Requests-s.Used-hits)*l.window/s.Aux
	}
	return l.window + max(0, l.window-(l.Requests-hits)*l.window/s.Used)
}

func expirySlidingCounter(l *Limit, s *State) int64 {
	switch {
	case s.Used > 0:
		return s.At + 2*l.windowµ
	case s.Aux > 0:
		return s.At + l.windowµ
	default:
		return 0
	}
}

// ceilDiv returns a / b rounded up, for a ≥ 0 and b > 0.
func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }
