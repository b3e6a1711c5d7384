package algorithm

import (
	"testing"
	"time"
)

const day = 24 * time.Hour

func TestLimitErrorsNameTheFieldAndWhatIsAllowed(t *testing.T) {
	for _, c := range []struct {
		spec Spec
		want string
	}{
		{Spec{Algorithm: "gcra", Requests: 1, Window: time.Second}, `algorithm: "gcra" is not an algorithm; one of fixed_window, sliding_window_log, sliding_window_counter, token_bucket, leaky_bucket`},
		{Spec{Requests: 1 << 32, Window: time.Second}, `requests_per_unit: 4294967296 is too large, at most 4294967295`},
		{Spec{Requests: 1, Window: time.Microsecond}, `window: 1µs is out of range, at least 1ms and at most 876000h (100 years)`},
		{Spec{Requests: 1, Window: 101 * 365 * day}, `window: 884760h0m0s is out of range, at least 1ms and at most 876000h (100 years)`},
		{Spec{Requests: 1, Window: time.Second + time.Nanosecond}, `window: 1.000000001s is not a whole number of microseconds`},
		{Spec{Requests: 1, Window: time.Second, Burst: 2}, `burst: only token_bucket and leaky_bucket have a burst, not fixed_window`},
		{Spec{Algorithm: "token_bucket", Requests: 1, Window: time.Second, Burst: 1 << 32}, `burst: 4294967296 is too large, at most 4294967295`},
		{Spec{Algorithm: "token_bucket", Requests: 0, Window: time.Second, Burst: 2}, `burst: a bucket with requests_per_unit 0 never refills, so it can have no burst`},
		{Spec{Algorithm: "token_bucket", Requests: 1, Window: day, Burst: 4_000_000_000}, `burst: a bucket of this size takes more than 100 years to refill; allow fewer at once or a higher rate`},
		{Spec{Algorithm: "leaky_bucket", Requests: 1, Window: day, Calendar: &Calendar{Unit: CalendarDay}}, `calendar: only fixed_window follows the calendar, not leaky_bucket`},
		{Spec{Algorithm: "sliding_window_log", Requests: 10_001, Window: time.Second}, `requests_per_unit: 10001 is too large for sliding_window_log, which keeps every hit, at most 10000`},
		{Spec{Algorithm: "sliding_window_counter", Requests: MaxRequests, Window: 30 * day}, `requests_per_unit: 4294967295 is too large for sliding_window_counter with a window of 720h0m0s, at most 1737499855`},
		{Spec{Algorithm: "token_bucket", Requests: 4294967291, Window: 365 * day}, `requests_per_unit: 4294967291 is too large for token_bucket with a window of 8760h0m0s, at most 142808206`},
		{Spec{Algorithm: "token_bucket", Requests: 7, Window: 31536001 * time.Second, Burst: 4294967291}, `burst: 4294967291 is too large for token_bucket with a window of 8760h0m1s, at most 142808201`},
	} {
		_, err := NewLimit(c.spec)
		if err == nil || err.Error() != c.want {
			t.Errorf("%+v:\n got  %v\n want %s", c.spec, err, c.want)
		}
		if c.want != "" {
			if _, ok := err.(*SpecError); !ok {
				t.Errorf("%+v: %T is not a *SpecError", c.spec, err)
			}
		}
	}
}

// TestLargestNumberFits takes the errors at their word.
func TestLargestNumberFits(t *testing.T) {
	for _, spec := range []Spec{
		{Algorithm: "sliding_window_counter", Requests: 1737499855, Window: 30 * day},
		{Algorithm: "token_bucket", Requests: 142808206, Window: 365 * day},
		{Algorithm: "sliding_window_log", Requests: 10_000, Window: 365 * day},
		{Algorithm: "fixed_window", Requests: MaxRequests, Window: MaxWindow},
	} {
		if _, err := NewLimit(spec); err != nil {
			t.Errorf("%+v: %v", spec, err)
		}
	}
}

// TestTickIsTheFinestThatStaysExact shows which tick a limit is counted in.
func TestTickIsTheFinestThatStaysExact(t *testing.T) {
	for _, c := range []struct {
		algorithm   string
		requests    uint64
		window      time.Duration
		tick        int64
		drip, scale int64
	}{
		{"token_bucket", 7, day, 1, 7, 86_400_000_000},
		{"token_bucket", 999, time.Second, 1, 999, 1_000_000},
		{"token_bucket", 3_000_000, time.Second, 1, 3, 1},
		{"token_bucket", 10, time.Minute, 1, 1, 6_000_000},
		{"leaky_bucket", 1_000_000_000, day, 1, 5, 432},
		{"token_bucket", 52_127, day, 1_000, 52_127, 86_400_000},
		{"sliding_window_counter", 52_123, day, 1, 0, 0},
		{"sliding_window_counter", 1_000_000, day, 1_000, 0, 0},
		{"sliding_window_counter", 1_000_000_000, day, 1_000_000, 0, 0},
		{"fixed_window", MaxRequests, 365 * day, 1, 0, 0},
	} {
		l, err := NewLimit(Spec{Algorithm: c.algorithm, Requests: c.requests, Window: c.window})
		if err != nil {
			t.Fatal(err)
		}
		if l.tick != c.tick || l.drip != c.drip || l.scale != c.scale {
			t.Errorf("%v: tick %d µs, drip %d, scale %d, want %d, %d, %d", l, l.tick, l.drip, l.scale, c.tick, c.drip, c.scale)
		}
	}
}

// TestChangedSizeKeepsTheCount changes the limit of a key that is in use.
func TestChangedSizeKeepsTheCount(t *testing.T) {
	for _, a := range All {
		small := mustLimit(t, Spec{Algorithm: a.Name, Requests: 10, Window: time.Hour})
		large := mustLimit(t, Spec{Algorithm: a.Name, Requests: 37, Window: time.Hour})
		s, now := State{}, int64(1e15)-int64(1e15)%small.windowµ
		decideOne(now, Ask{Limit: small, Hits: 10}, &s)
		if d := decideOne(now, Ask{Limit: large, Hits: 20}, &s); d.Before != 10 || d.After != 30 {
			t.Errorf("%s: %+v after the limit grew, want 10 and 20 more in use", a.Name, d)
		}
		if d := decideOne(now, Ask{Limit: small, Hits: 1}, &s); d.Outcome != Denied || d.Remaining != 0 {
			t.Errorf("%s: %+v after the limit shrank", a.Name, d)
		}
	}
}

func mustLimit(t testing.TB, spec Spec) *Limit {
	t.Helper()
	l, err := NewLimit(spec)
	if err != nil {
		t.Fatal(err)
	}
	return l
}
