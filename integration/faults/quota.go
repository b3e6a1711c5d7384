package faults

import (
	"slices"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// most returns how many hits a limit admits at most within a span, whatever was before.
func most(l *algorithm.Limit, s span) int64 {
	window := instant(l.Window.Microseconds())
	switch l.Algorithm {
	case algorithm.FixedWindow, algorithm.SlidingWindowCounter:
		return l.Requests * int64(s.to/window-s.from/window+1)
	case algorithm.SlidingWindowLog:
		return l.Requests * int64((s.to-s.from)/window+1)
	default: // buckets
		return l.Capacity + drained(l, s.to-s.from)
	}
}

// drained returns how many whole hits leave a bucket in a time, rounded up.
func drained(l *algorithm.Limit, during instant) int64 {
	window := l.Window.Microseconds()
	return (l.Requests*int64(during) + window - 1) / window
}

// excess returns by how many hits the admitted calls exceed what the limit allows, in the span where that is most.
func excess(l *algorithm.Limit, calls []*call) int64 {
	byEnd := slices.Clone(calls)
	slices.SortFunc(byEnd, func(a, b *call) int { return int(a.back - b.back) })
	var worst int64
	for _, first := range calls {
		within := int64(0)
		for _, last := range byEnd {
			if last.sent < first.sent {
				continue
			}
			within++
			if within > l.Requests { // most is never less
				worst = max(worst, within-most(l, span{first.sent, last.back}))
			}
		}
	}
	return worst
}

// charge is one hit that a store may have counted, somewhere within a span.
type charge struct{ span }

// mayRefuse says whether a limit may have refused one more hit within a span, if all of the charges that may have come before
// were counted as late as they can have been. The charges are in the order of their ends.
func mayRefuse(l *algorithm.Limit, asked span, charges []charge) bool {
	switch l.Algorithm {
	case algorithm.FixedWindow, algorithm.SlidingWindowCounter:
		window := instant(l.Window.Microseconds())
		for begin := asked.from - asked.from%window; begin <= asked.to; begin += window {
			if fullWindow(l, begin, asked, charges) {
				return true
			}
		}
		return false
	case algorithm.SlidingWindowLog:
		since := asked.from - instant(l.Window.Microseconds())
		return within(charges, span{since, asked.to}) >= l.Requests
	default:
		return fullBucket(l, asked, charges)
	}
}

// fullWindow says whether the window that begins at begin may have been full when the hit came.
func fullWindow(l *algorithm.Limit, begin instant, asked span, charges []charge) bool {
	window := instant(l.Window.Microseconds())
	current := within(charges, span{begin, min(begin+window, asked.to)})
	if l.Algorithm == algorithm.FixedWindow {
		return current >= l.Requests
	}
	previous := within(charges, span{begin - window, begin})
	left := int64(window - max(0, asked.from-begin))
	return previous*left+(current+1)*int64(window) > l.Requests*int64(window)
}

// within counts the charges that may have come in a span.
func within(charges []charge, s span) int64 {
	n := int64(0)
	for i := range charges {
		if charges[i].to >= s.from && charges[i].from <= s.to {
			n++
		}
	}
	return n
}

// fullBucket says whether a bucket may have been full when the hit came: at the beginning of its span, or when another hit may just
// have come. In between a bucket only drains.
func fullBucket(l *algorithm.Limit, asked span, charges []charge) bool {
	const rounding = 1e-6 // of sums of doubles
	full := func(at instant) bool { return highest(l, at, charges)+1 > float64(l.Capacity)-rounding }
	return full(asked.from) || slices.ContainsFunc(charges, func(c charge) bool {
		return c.from > asked.from && c.from <= asked.to && full(c.from)
	})
}

// highest returns the highest level in hits that a bucket may have at an instant: the later the charges, the less has drained.
func highest(l *algorithm.Limit, at instant, charges []charge) float64 {
	rate := float64(l.Requests) / float64(l.Window.Microseconds())
	level, since := 0.0, instant(0)
	for _, c := range charges {
		if c.from > at {
			continue
		}
		if now := min(c.to, at); now > since {
			level, since = max(0, level-rate*float64(now-since)), now
		}
		level++
	}
	return max(0, level-rate*float64(at-since))
}
