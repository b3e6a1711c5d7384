package algorithm

// TokenBucket holds up to capacity tokens and gains requests of them per
// window, evenly; a hit takes one.
//
//	tokens = min(capacity, tokens + rate × elapsed)
//	fits  ⇔ tokens ≥ hits; otherwise it does after (hits − tokens) / rate
//
// Worst case: capacity + requests within one window's length, when a full
// bucket is emptied at once.
var TokenBucket = &Algorithm{
	Name:   "token_bucket",
	Lua:    bucketLua,
	bucket: true,
	fit:    fitBucket,
	repair: repairBucket,
	decide: decideTokenBucket,
	expiry: expiryBucket,
}

func decideTokenBucket(l *Limit, s *State, now, hits int64, how charge) Decision {
	d, _ := decideBucket(l, s, now, hits, how)
	return d
}
