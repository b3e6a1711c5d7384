package statsd

import (
	"testing"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

func limitOf(t *testing.T, requests uint64) *algorithm.Limit {
	t.Helper()
	l, err := algorithm.NewLimit(algorithm.Spec{Algorithm: algorithm.FixedWindow.Name, Requests: requests, Window: algorithm.MaxWindow})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Each row is a history of hits on one limit of 20, of which 16 are not near, and what they add up to. Hits are charged as
// envoyproxy/ratelimit charges them: all of them, whether they fit or not.
func TestHitsAreDividedAtThresholds(t *testing.T) {
	for _, row := range []struct {
		what   string
		hits   []int64
		shadow bool
		want   [countersCount]uint64 // total, within, near, over, known, shadow
	}{
		{"up to the threshold", []int64{16}, false, [...]uint64{16, 16, 0, 0, 0, 0}},
		{"one past it", []int64{16, 1}, false, [...]uint64{17, 17, 1, 0, 0, 0}},
		{"across it", []int64{14, 5}, false, [...]uint64{19, 19, 3, 0, 0, 0}},
		{"across the limit", []int64{14, 5, 5}, false, [...]uint64{24, 19, 4, 4, 0, 0}},
		{"past it", []int64{14, 5, 5, 5}, false, [...]uint64{29, 19, 4, 9, 0, 0}},
		{"across both at once", []int64{30}, false, [...]uint64{30, 0, 4, 10, 0, 0}},
		{"exactly the limit", []int64{20}, false, [...]uint64{20, 20, 4, 0, 0, 0}},
		{"across the limit in shadow", []int64{18, 5}, true, [...]uint64{23, 18, 4, 3, 0, 3}},
		{"past it in shadow", []int64{20, 5}, true, [...]uint64{25, 20, 4, 5, 0, 5}},
		{"a look", []int64{0}, false, [countersCount]uint64{}},
	} {
		var c counters
		limit := limitOf(t, 20)
		used := int64(0)
		for _, hits := range row.hits {
			d := algorithm.Decision{Outcome: algorithm.Allowed, Before: used, After: used + hits}
			if used += hits; used > limit.Capacity {
				d.Outcome = algorithm.Denied
			}
			c.count(nearOf(limit.Capacity, 0.8), &algorithm.Ask{Limit: limit, Hits: hits, Shadow: row.shadow, Counting: algorithm.Reference}, &d)
		}
		if got := c.values(); got != row.want {
			t.Errorf("%s: %v, want %v", row.what, got, row.want)
		}
	}
}

// Where a request is charged as a whole or not at all, what is refused is refused as a whole, and what fits is not granted
// when another limit refuses. A store that does not decide grants nothing, unless its failure policy does.
func TestWhatIsNotCharged(t *testing.T) {
	limit := limitOf(t, 20)
	for _, row := range []struct {
		what string
		mode algorithm.Mode
		d    algorithm.Decision
		want [countersCount]uint64
	}{
		{"refused", algorithm.Charge, algorithm.Decision{Outcome: algorithm.Denied, Before: 18, After: 18}, [...]uint64{5, 0, 0, 5, 0, 0}},
		{"known to be over", algorithm.Charge, algorithm.Decision{Outcome: algorithm.Denied, Known: true, Before: 25, After: 25}, [...]uint64{5, 0, 0, 5, 5, 0}},
		{"fits, another limit refuses", algorithm.Charge, algorithm.Decision{Outcome: algorithm.Allowed, Before: 3, After: 3}, [...]uint64{5, 0, 0, 0, 0, 0}},
		{"undecided", algorithm.Charge, algorithm.Decision{}, [...]uint64{5, 0, 0, 0, 0, 0}},
		{"allowed by policy", algorithm.Charge, algorithm.Decision{Outcome: algorithm.Allowed, Degraded: true}, [...]uint64{5, 5, 0, 0, 0, 0}},
		{"denied by policy", algorithm.Charge, algorithm.Decision{Outcome: algorithm.Denied, Degraded: true}, [...]uint64{5, 0, 0, 5, 0, 0}},
		{"known to be over", algorithm.Charge, algorithm.Decision{Outcome: algorithm.Denied, Known: true, Before: 23, After: 23}, [...]uint64{5, 0, 0, 5, 5, 0}},
		{"given back", algorithm.GiveBack, algorithm.Decision{Outcome: algorithm.Allowed, Before: 9, After: 4}, [countersCount]uint64{}},
	} {
		var c counters
		c.count(16, &algorithm.Ask{Limit: limit, Hits: 5, Mode: row.mode}, &row.d)
		if got := c.values(); got != row.want {
			t.Errorf("%s: %v, want %v", row.what, got, row.want)
		}
	}
}

func TestNearIsRoundedDown(t *testing.T) {
	for _, row := range []struct {
		limit int64
		ratio float64
		want  int64
	}{{20, 0.8, 16}, {7, 0.5, 3}, {1, 0.8, 0}, {0, 0.8, 0}, {10, 1, 10}, {4294967295, 1, 4294967296}} { // the last in single precision
		if got := nearOf(row.limit, row.ratio); got != row.want {
			t.Errorf("%v of %d: %d, want %d", row.ratio, row.limit, got, row.want)
		}
	}
}

// values returns what was counted.
func (c *counters) values() (values [countersCount]uint64) {
	for i := range c {
		values[i] = c[i].Load()
	}
	return values
}
