package algorithm

import (
	"math/big"
	"slices"
)

// A twin is a slow judge that follows the definition of an algorithm. It goes
// by what clients were told, hit for hit and with exact fractions, and knows
// nothing of states.
type twin struct {
	l    *Limit
	told []told // oldest first, within one window of a counter in any order
	seen int64  // beginning of the latest window of a counter
}

// A told is an answer that charged hits, or gave them back (negative), at the
// instant that it counts for.
type told struct{ at, hits int64 }

// judge returns whether hits fit at now, and what is in use before them,
// rounded up.
func (w *twin) judge(now, hits int64) (fits bool, used int64) {
	t := w.instant(now)
	level := w.level(t)
	after := new(big.Rat).Add(level, big.NewRat(hits, 1))
	return after.Cmp(big.NewRat(w.l.Capacity, 1)) <= 0, ceilRat(level)
}

// tell records an answer given at now.
func (w *twin) tell(now, hits int64) {
	if hits == 0 {
		return
	}
	t := w.instant(now)
	w.seen = t - t%w.l.windowµ
	if hits >= 0 {
		w.told = append(w.told, told{t, hits})
	} else {
		w.returned(t, -hits)
	}
	left := int64(-1) // what has left a log's window stays gone, also if the newest hit is given back
	if w.l.Algorithm == SlidingWindowLog {
		left = t - w.l.windowµ
	}
	w.told = slices.DeleteFunc(w.told, func(a told) bool { return a.hits == 0 || a.at <= left })
	if hits < 0 && w.level(t).Sign() == 0 {
		w.told = nil // the key equals one never seen
	}
}

// instant is when an ask at now counts for the key: never before what the key
// has seen, unless that is more than a window away.
func (w *twin) instant(now int64) int64 {
	t := w.floor(now)
	if len(w.told) == 0 {
		return t
	}
	if w.l.Algorithm == SlidingWindowCounter {
		return max(t, w.seen)
	}
	return max(t, w.floor(w.told[len(w.told)-1].at))
}

// settle brings a key back that has seen more than a window ahead of now.
func (w *twin) settle(now int64) {
	if len(w.told) == 0 {
		return
	}
	seen := w.told[len(w.told)-1].at
	window := w.l.windowµ
	switch w.l.Algorithm {
	case FixedWindow, SlidingWindowCounter:
		seen = w.seen
		if seen-now <= window {
			return
		}
		begin := now - now%window
		w.seen = begin
		kept := w.told[:0]
		for _, a := range w.told {
			switch a.at - a.at%window {
			case seen:
				kept = append(kept, told{begin, a.hits})
			case seen - window:
				kept = append(kept, told{begin - window, a.hits})
			}
		}
		w.told = kept
	case SlidingWindowLog:
		if seen-now > window {
			for i := range w.told {
				w.told[i].at = min(w.told[i].at, now)
			}
		}
	default:
		if w.level(seen).Sign() == 0 {
			w.told = nil
		} else if seen-now > window {
			back := now - seen
			for i := range w.told {
				w.told[i].at += back
			}
		}
	}
}

// floor is the instant as the algorithm tells time: windows do not look behind
// their beginning, buckets count whole ticks.
func (w *twin) floor(at int64) int64 {
	switch w.l.Algorithm {
	case FixedWindow:
		return at - at%w.l.windowµ
	case TokenBucket, LeakyBucket:
		return at - at%w.l.tick
	default:
		return at
	}
}

// level is what is in use at t.
func (w *twin) level(t int64) *big.Rat {
	window := w.l.windowµ
	switch w.l.Algorithm {
	case FixedWindow:
		return big.NewRat(w.sum(t, t+window), 1)
	case SlidingWindowLog:
		return big.NewRat(w.sum(t-window+1, t+1), 1)
	case SlidingWindowCounter:
		begin := t - t%window
		elapsed := (t - begin) / w.l.tick
		carried := big.NewRat(w.l.window-elapsed, w.l.window)
		carried.Mul(carried, big.NewRat(w.sum(begin-window, begin), 1))
		return carried.Add(carried, big.NewRat(w.sum(begin, begin+window), 1))
	default:
		return w.drained(t)
	}
}

// drained replays a bucket from its first hit.
func (w *twin) drained(t int64) *big.Rat {
	level, at := new(big.Rat), int64(0)
	drain := func(to int64) {
		if ticks := (to - at) / w.l.tick; ticks > 0 {
			lost := new(big.Rat).Mul(big.NewRat(w.l.Requests, w.l.window), big.NewRat(ticks, 1))
			if level.Sub(level, lost).Sign() < 0 {
				level.SetInt64(0)
			}
			at = to
		}
	}
	for _, a := range w.told {
		drain(a.at)
		if level.Add(level, big.NewRat(a.hits, 1)).Sign() < 0 {
			level.SetInt64(0)
		}
	}
	drain(t)
	return level
}

// sum of the hits in [from, to).
func (w *twin) sum(from, to int64) (total int64) {
	for _, a := range w.told {
		if a.at >= from && a.at < to {
			total += a.hits
		}
	}
	return total
}

// returned takes hits off: in a window or a log the newest in use first.
func (w *twin) returned(t, hits int64) {
	if w.l.Algorithm.bucket {
		w.told = append(w.told, told{t, -hits})
		return
	}
	oldest := t - w.l.windowµ + 1
	switch w.l.Algorithm {
	case FixedWindow:
		oldest = t
	case SlidingWindowCounter:
		oldest = t - t%w.l.windowµ - w.l.windowµ
	}
	for i := len(w.told) - 1; i >= 0 && w.told[i].at >= oldest; i-- {
		off := min(hits, w.told[i].hits)
		w.told[i].hits -= off
		hits -= off
	}
}

func ceilRat(r *big.Rat) int64 {
	n := new(big.Int).Add(r.Num(), r.Denom())
	n.Sub(n, big.NewInt(1))
	return n.Div(n, r.Denom()).Int64()
}
