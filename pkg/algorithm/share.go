package algorithm

// Share returns the part of the limit that each of n processes may admit by
// itself so that all together admit about the limit: the same algorithm and
// window, with requests and burst divided by n and rounded down, but 1 at
// least, unless the limit denies everything. So n processes admit at most
// max(limit, n) of what the limit admits at once. For n of 1 or less it is the
// limit itself.
//
// A bucket whose divided numbers could not be counted exactly gets a smaller
// burst still; if not even a burst of 1 can be, which takes a window of decades,
// the share is the whole limit.
func (l *Limit) Share(n int) *Limit {
	if n <= 1 || l.Requests == 0 {
		return l
	}
	spec := Spec{
		Algorithm: l.Algorithm.Name, Requests: part(l.Requests, n), Window: l.Window, Calendar: l.Calendar, Overdraw: l.Overdraw,
	}
	if l.Algorithm.bucket {
		spec.Burst = part(l.Capacity, n)
	}
	share, err := NewLimit(spec)
	for err != nil && spec.Burst > 1 {
		spec.Burst /= 2
		share, err = NewLimit(spec)
	}
	if err != nil {
		return l
	}
	share.whole = l.Whole()
	return share
}

// Whole returns the limit that this one is a share of; itself if of none.
func (l *Limit) Whole() *Limit {
	if l.whole == nil {
		return l
	}
	return l.whole
}

// Used returns the hits of a state that are in use at an instant, in
// microseconds since the epoch, rounded up.
func (l *Limit) Used(s State, now int64) int64 {
	l.Algorithm.repair(l, &s, now)
	return l.Algorithm.decide(l, &s, now, 0, take).Before
}

func part(whole int64, n int) uint64 { return uint64(max(1, whole/int64(n))) }
