package algorithm

import (
	_ "embed"
	"math"
)

//go:embed bucket.lua
var bucketLua string

// A token bucket and a leaky bucket are one machine seen from two sides: the
// level of what was taken drains at a constant rate, and hits fit while the
// level has room for them below the capacity.
//
//	level = max(0, level − drip × elapsed)     drip / scale = requests / window
//	fits  ⇔ level + hits × scale ≤ capacity × scale
//
// All in whole units of 1/scale hit, and ticks, so that nothing is lost to
// rounding however odd the rate.

// maxDrain is the longest time in microseconds that a bucket may take to
// drain, so that its expiry stays exact.
const maxDrain = int64(MaxWindow / 1000)

// fitBucket reduces the rate and keeps (capacity + 1) × scale below 2^52.
func fitBucket(l *Limit) error {
	err := fitTicks(l, func(l *Limit) bool {
		g := gcd(l.Requests, l.window)
		l.drip, l.scale = l.Requests/g, l.window/g
		return l.Capacity+1 <= maxExact/l.scale
	})
	if err != nil || l.drip == 0 {
		return err
	}
	drainTicks := maxDrain / l.tick
	l.maxUsed = maxExact
	if l.drip < maxExact/drainTicks {
		l.maxUsed = l.drip * drainTicks
	}
	if l.Capacity*l.scale > l.maxUsed {
		return &SpecError{"burst", "a bucket of this size takes more than 100 years to refill; allow fewer at once or a higher rate"}
	}
	return nil
}

func repairBucket(l *Limit, s *State, now int64) bool {
	if levelBucket(l, s) == 0 || s.At-now <= l.windowµ {
		return false
	}
	s.At = now
	return true
}

// drainBucket brings the level down to what it is at now and returns the tick
// it is at: that of now, or a later one at which the state stands still.
func drainBucket(l *Limit, s State, now int64) (drained State, at int64) {
	at = now / l.tick
	s.Used = levelBucket(l, &s)
	if s.Used > 0 {
		seen := ceilDiv(s.At, l.tick)
		switch elapsed := at - seen; {
		case elapsed < 0:
			at = seen
		case elapsed >= ceilDiv(s.Used, l.drip):
			s.Used = 0
		default:
			s.Used -= elapsed * l.drip
		}
	}
	s.At, s.Aux = at*l.tick, l.scale
	return s, at
}

// levelBucket returns the level in units of the limit, which may have had
// another rate when the state was stored.
func levelBucket(l *Limit, s *State) int64 {
	level := s.Used
	if level > 0 && s.Aux != l.scale {
		level = rescale(level, s.Aux, l.scale)
	}
	return min(level, l.maxUsed)
}

// rescale expresses a level in the units of another rate. The fraction of a
// hit is rounded up, in doubles as Lua does it.
func rescale(level, from, to int64) int64 {
	whole, part := level/from, level%from
	if whole >= maxExact/to {
		return maxExact
	}
	return whole*to + min(to, int64(math.Ceil(float64(part)/float64(from)*float64(to))))
}

// decideBucket also returns the level that the hits found.
func decideBucket(l *Limit, s *State, now, hits int64, how charge) (d Decision, level int64) {
	next, at := drainBucket(l, *s, now)
	level = next.Used
	before := ceilDiv(level, l.scale)
	room := (l.maxUsed - level) / l.scale
	fits := hits <= l.Capacity && level+hits*l.scale <= l.Capacity*l.scale
	switch {
	case how == giveBack:
		next.Used = max(0, level-min(hits, before)*l.scale)
	case fits:
		next.Used = level + hits*l.scale
	case how == spend:
		next.Used = level + min(hits, room)*l.scale
	}
	d = l.decision(fits || how == giveBack, hits, before, ceilDiv(next.Used, l.scale))
	if d.Outcome == Denied && !d.Never {
		wait := ceilDiv(next.Used+hits*l.scale-l.Capacity*l.scale, l.drip)
		d.RetryAfter = micros((at+wait)*l.tick - now)
	}
	d.Reset = untilReset(expiryBucket(l, &next), now)
	if next.Used != level {
		*s = next
	}
	return d, level
}

func expiryBucket(l *Limit, s *State) int64 {
	level := levelBucket(l, s)
	if level == 0 {
		return 0
	}
	return s.At + ceilDiv(level, l.drip)*l.tick
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
