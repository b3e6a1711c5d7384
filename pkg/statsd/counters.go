package statsd

import (
	"math"
	"sync/atomic"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// The counters of one name, in the order of their suffixes.
const (
	totalHits     = iota // asked for
	withinLimit          // granted
	nearLimit            // granted, near the limit or past that
	overLimit            // refused
	knownOver            // refused without asking the store
	shadowMode           // would have been refused
	countersCount        // the number of counters
)

var suffixes = [countersCount]string{"total_hits", "within_limit", "near_limit", "over_limit", "over_limit_with_local_cache", "shadow_mode"}

// counters are those of one name. The zero value has counted nothing.
type counters [countersCount]atomic.Uint64

// add adds hits to one of them.
func (c *counters) add(which int, hits int64) {
	if hits > 0 {
		c[which].Add(uint64(hits))
	}
}

// nearOf returns how many hits are near the limit, in the precision that
// envoyproxy/ratelimit computes it in.
func nearOf(limit int64, ratio float64) int64 {
	return int64(math.Floor(float64(float32(limit) * float32(ratio))))
}

// count adds a decision. Hits that cross a threshold are divided: those up to it
// count below it, the rest above. near is that threshold; the other one is the
// limit, and only where hits that do not fit are charged all the same does an ask
// cross it, since otherwise it is refused as a whole.
//
// What fits but was not charged, because another limit of its request refused,
// was asked for and not granted.
func (c *counters) count(near int64, a *algorithm.Ask, d *algorithm.Decision) {
	if a.Mode == algorithm.GiveBack {
		return
	}
	hits, limit := a.Hits, a.Limit.Capacity
	c.add(totalHits, hits)
	switch {
	case d.Outcome == algorithm.Denied:
		over := hits
		if d.After > d.Before && d.Before < limit && !d.Degraded {
			over = min(hits, max(0, hits-(limit-d.Before)))
			c.add(nearLimit, limit-max(near, d.Before))
		}
		c.add(overLimit, over)
		if d.Known {
			c.add(knownOver, hits)
		}
		if a.Shadow {
			c.add(shadowMode, over)
		}
	case d.Outcome != algorithm.Allowed:
	case d.Degraded:
		c.add(withinLimit, hits)
	case d.After > d.Before:
		c.add(withinLimit, hits)
		if d.After > near {
			c.add(nearLimit, min(hits, d.After-near))
		}
	}
}
