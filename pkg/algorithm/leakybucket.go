package algorithm

// LeakyBucket is a queue that requests leave at a constant rate; one that
// finds it full is refused. It admits what a token bucket of the same burst
// admits, and tells besides how long the queue takes to reach a request:
//
//	delay = level before it / rate, 0 for the first
//
// A rate limit service cannot hold a call back, so the delay is for the caller
// to keep.
//
// Worst case: as a token bucket, where the caller ignores the delay; exactly
// the rate where it keeps it.
var LeakyBucket = &Algorithm{
	Name:   "leaky_bucket",
	Lua:    bucketLua,
	bucket: true,
	fit:    fitBucket,
	repair: repairBucket,
	decide: decideLeakyBucket,
	expiry: expiryBucket,
}

func decideLeakyBucket(l *Limit, s *State, now, hits int64, how charge) Decision {
	d, level := decideBucket(l, s, now, hits, how)
	if d.Outcome == Allowed && how != giveBack && level > 0 {
		d.Delay = micros(ceilDiv(level, l.drip) * l.tick)
	}
	return d
}
