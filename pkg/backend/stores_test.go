package backend

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// TestStores holds every store to the same promises.
func TestStores(t *testing.T) {
	promises := []struct {
		name string
		test func(t *testing.T, s *testStore)
	}{
		{"Expiry", keysExpire}, // first: among many keys Redis is slow to find those that have expired
		{"ExactlyTheLimit", exactlyTheLimit},
		{"AllOrNothing", allOrNothing},
		{"AllOrNothingInParallel", allOrNothingInParallel},
		{"Reference", referenceCounting},
		{"Shadow", shadowChangesNothing},
		{"Quota", oneQuotaIsEnough},
		{"LookWritesNothing", lookWritesNothing},
		{"GiveBack", giveBackAndForced},
		{"Overdraw", overdraw},
		{"SameKeyTwice", sameKeyTwice},
		{"Batch", batchOfRequests},
		{"AnyBytes", anyBytesInKeys},
		{"ManyDescriptors", manyDescriptors},
		{"Calendar", calendarWindows},
	}
	for _, shape := range shapes {
		t.Run(shape.name, func(t *testing.T) {
			t.Parallel()
			s := shape.open(t)
			s.name = shape.name
			for _, p := range promises {
				t.Run(p.name, func(t *testing.T) { p.test(t, s) })
			}
		})
	}
}

// decide decides asks as one request, and fails the test when the store does
// not decide.
func (s *testStore) decide(t *testing.T, asks ...algorithm.Ask) []algorithm.Decision {
	t.Helper()
	out := make([]algorithm.Decision, len(asks))
	s.Decide(context.Background(), asks, out)
	for i := range out {
		if out[i].Outcome == algorithm.Undecided {
			t.Fatalf("ask %d (%q) is undecided: %v", i, asks[i].Key, out[i].Err)
		}
	}
	return out
}

// show writes decisions the way the tests' rows do: outcome:remaining.
func show(decisions []algorithm.Decision) string {
	text := ""
	for i, d := range decisions {
		if i > 0 {
			text += " "
		}
		text += fmt.Sprintf("%s:%d", map[algorithm.Outcome]string{algorithm.Allowed: "ok", algorithm.Denied: "over"}[d.Outcome], d.Remaining)
	}
	return text
}

const aLongTime = 100 * time.Hour // in which nothing refills while a test runs

func forEachAlgorithm(t *testing.T, test func(t *testing.T, name string)) {
	for _, a := range algorithm.All {
		t.Run(a.Name, func(t *testing.T) { test(t, a.Name) })
	}
}

func exactlyTheLimit(t *testing.T, s *testStore) {
	forEachAlgorithm(t, func(t *testing.T, name string) {
		l := limitOf(t, name, 500, aLongTime)
		k := key(t, "hot", "key")
		var admitted, undecided atomic.Int64
		var wg sync.WaitGroup
		for range 64 {
			wg.Go(func() {
				for range 20 {
					var out [1]algorithm.Decision
					s.Decide(context.Background(), []algorithm.Ask{{Key: k, Limit: l, Hits: 1}}, out[:])
					switch out[0].Outcome {
					case algorithm.Allowed:
						admitted.Add(1)
					case algorithm.Undecided:
						undecided.Add(1)
					}
				}
			})
		}
		wg.Wait()
		if admitted.Load() != 500 || undecided.Load() != 0 {
			t.Errorf("%d of 1280 admitted, %d undecided; want 500, 0", admitted.Load(), undecided.Load())
		}
	})
}

// site 10, account 3: the history of two rules in one request.
func allOrNothing(t *testing.T, s *testStore) {
	forEachAlgorithm(t, func(t *testing.T, name string) {
		for _, tags := range [][2]string{{"a", "a"}, {"a", "b"}} {
			for _, reversed := range []bool{false, true} {
				prefix := fmt.Sprint(tags, reversed)
				site, account := limitOf(t, name, 10, aLongTime), limitOf(t, name, 3, aLongTime)
				for i, step := range []struct{ account, want string }{
					{"u1", "ok:9 ok:2"}, {"u1", "ok:8 ok:1"}, {"u1", "ok:7 ok:0"},
					{"u1", "ok:7 over:0"}, {"u1", "ok:7 over:0"}, {"u2", "ok:6 ok:2"},
				} {
					asks := []algorithm.Ask{
						{Key: key(t, tags[0], prefix+"site"), Limit: site, Hits: 1},
						{Key: key(t, tags[1], prefix+step.account), Limit: account, Hits: 1},
					}
					if reversed {
						asks[0], asks[1] = asks[1], asks[0]
					}
					out := s.decide(t, asks...)
					if reversed {
						out[0], out[1] = out[1], out[0]
					}
					if got := show(out); got != step.want {
						t.Errorf("%s step %d: %s, want %s", prefix, i, got, step.want)
					}
				}
			}
		}
	})
}

// Requests that need two keys, one of which is short: never more than it
// holds are admitted, and what is denied charges nothing in the end, whether the
// keys share a hash slot or not.
func allOrNothingInParallel(t *testing.T, s *testStore) {
	forEachAlgorithm(t, func(t *testing.T, name string) {
		for _, otherTag := range []string{"a", "b"} {
			site, account := limitOf(t, name, 10, aLongTime), limitOf(t, name, 3, aLongTime)
			siteKey := key(t, "a", "site with "+otherTag)
			var admitted atomic.Int64
			var wg sync.WaitGroup
			for i := range 64 {
				wg.Go(func() {
					asks := []algorithm.Ask{
						{Key: siteKey, Limit: site, Hits: 1},
						{Key: key(t, otherTag, fmt.Sprint(otherTag, i)), Limit: account, Hits: 1},
					}
					out := make([]algorithm.Decision, 2)
					s.Decide(context.Background(), asks, out)
					if out[0].Outcome == algorithm.Allowed && out[1].Outcome == algorithm.Allowed {
						admitted.Add(1)
					}
				})
			}
			wg.Wait()
			if admitted.Load() != 10 {
				t.Errorf("tag %s: %d admitted, want 10", otherTag, admitted.Load())
			}
			out := s.decide(t, algorithm.Ask{Key: siteKey, Limit: site})
			if out[0].After != 10 {
				t.Errorf("tag %s: site stands at %d, want 10", otherTag, out[0].After)
			}
			left := 0
			for i := range 64 {
				left += int(s.decide(t, algorithm.Ask{Key: key(t, otherTag, fmt.Sprint(otherTag, i)), Limit: account})[0].After)
			}
			if left != 10 {
				t.Errorf("tag %s: accounts stand at %d in all, want 10", otherTag, left)
			}
		}
	})
}

func referenceCounting(t *testing.T, s *testStore) {
	for _, tag := range []string{"a", "b"} {
		site, account := limitOf(t, "fixed_window", 10, aLongTime), limitOf(t, "fixed_window", 3, aLongTime)
		for i, step := range []struct{ account, want string }{
			{"u1", "ok:9 ok:2"}, {"u1", "ok:8 ok:1"}, {"u1", "ok:7 ok:0"},
			{"u1", "ok:6 over:0"}, {"u1", "ok:5 over:0"}, {"u2", "ok:4 ok:2"},
		} {
			got := show(s.decide(t,
				algorithm.Ask{Key: key(t, "a", tag+"site"), Limit: site, Hits: 1, Counting: algorithm.Reference},
				algorithm.Ask{Key: key(t, tag, tag+step.account), Limit: account, Hits: 1, Counting: algorithm.Reference},
			))
			if got != step.want {
				t.Errorf("tag %s step %d: %s, want %s", tag, i, got, step.want)
			}
		}
	}
}

func shadowChangesNothing(t *testing.T, s *testStore) {
	for _, tag := range []string{"a", "b"} {
		trial, plan := limitOf(t, "fixed_window", 1, aLongTime), limitOf(t, "fixed_window", 5, aLongTime)
		shadowed, denied := 0, 0
		for range 9 {
			out := s.decide(t,
				algorithm.Ask{Key: key(t, tag, tag+"trial"), Limit: trial, Hits: 1, Shadow: true},
				algorithm.Ask{Key: key(t, "a", tag+"plan"), Limit: plan, Hits: 1},
			)
			if out[0].Outcome == algorithm.Denied {
				shadowed++
			}
			if out[1].Outcome == algorithm.Denied {
				denied++
			}
		}
		if shadowed != 8 || denied != 4 {
			t.Errorf("tag %s: %d shadow denials and %d denials, want 8 and 4", tag, shadowed, denied)
		}
	}
}

func oneQuotaIsEnough(t *testing.T, s *testStore) {
	for _, tags := range []string{"aaa", "aab", "aba", "abb", "abc"} {
		rule, small, large := limitOf(t, "fixed_window", 4, aLongTime), limitOf(t, "fixed_window", 1, aLongTime), limitOf(t, "fixed_window", 2, aLongTime)
		ask := func(i int, name string, l *algorithm.Limit, quota bool) algorithm.Ask {
			return algorithm.Ask{Key: key(t, tags[i:i+1], tags+name), Limit: l, Hits: 1, Quota: quota}
		}
		for i, want := range []string{
			"ok:3 ok:0 ok:1",
			"ok:2 over:0 ok:0", // the small quota is used up: the large one is enough
			"ok:2 over:0 over:0",
			"ok:2 over:0 over:0",
		} {
			got := show(s.decide(t, ask(0, "rule", rule, false), ask(1, "small", small, true), ask(2, "large", large, true)))
			if got != want {
				t.Errorf("tags %s step %d: %s, want %s", tags, i, got, want)
			}
		}
		// A rule that denies keeps the quotas from being charged.
		got := show(s.decide(t, ask(0, "never", limitOf(t, "fixed_window", 0, aLongTime), false), ask(1, "fresh", small, true), ask(2, "fresher", large, true)))
		if want := "over:0 ok:1 ok:2"; got != want {
			t.Errorf("tags %s: %s, want %s", tags, got, want)
		}
	}
}

func lookWritesNothing(t *testing.T, s *testStore) {
	forEachAlgorithm(t, func(t *testing.T, name string) {
		l := limitOf(t, name, 10, aLongTime)
		before := s.keys(t)
		for range 3 {
			if got := show(s.decide(t, algorithm.Ask{Key: key(t, "a", "look"), Limit: l})); got != "ok:10" {
				t.Errorf("look: %s, want ok:10", got)
			}
		}
		// Neither do a denial, hits given back to nothing, and a cost above the limit.
		s.decide(t, algorithm.Ask{Key: key(t, "a", "look"), Limit: l, Hits: 3, Mode: algorithm.GiveBack})
		if got := show(s.decide(t, algorithm.Ask{Key: key(t, "a", "look"), Limit: l, Hits: 11})); got != "over:10" {
			t.Errorf("too much: %s, want over:10", got)
		}
		if got := s.keys(t); got != before {
			t.Errorf("the store holds %d keys more", got-before)
		}
	})
}

func giveBackAndForced(t *testing.T, s *testStore) {
	forEachAlgorithm(t, func(t *testing.T, name string) {
		l := limitOf(t, name, 10, aLongTime)
		ask := func(hits int64, mode algorithm.Mode) algorithm.Ask {
			return algorithm.Ask{Key: key(t, "a", "key"), Limit: l, Hits: hits, Mode: mode}
		}
		for i, step := range []struct {
			ask  algorithm.Ask
			want string
		}{
			{ask(0, algorithm.Charge), "ok:10"},
			{ask(8, algorithm.Charge), "ok:2"},
			{ask(5, algorithm.Charge), "over:2"}, // too big a call does not burn what is left
			{ask(2, algorithm.Charge), "ok:0"},
			{ask(0, algorithm.Charge), "ok:0"},
			{ask(4, algorithm.GiveBack), "ok:4"},
			{ask(4, algorithm.Charge), "ok:0"},
			{ask(1, algorithm.Forced), "ok:0"}, // what has happened has happened
			{ask(1, algorithm.Charge), "over:0"},
			{ask(99, algorithm.GiveBack), "ok:10"}, // never past full
			{ask(10, algorithm.Charge), "ok:0"},
			{ask(1<<62, algorithm.Charge), "over:0"},
			{ask(1, algorithm.Charge), "over:0"},
		} {
			if got := show(s.decide(t, step.ask)); got != step.want {
				t.Errorf("step %d: %s, want %s", i, got, step.want)
			}
		}
	})
}

func overdraw(t *testing.T, s *testStore) {
	forEachAlgorithm(t, func(t *testing.T, name string) {
		l, err := algorithm.NewLimit(algorithm.Spec{Algorithm: name, Requests: 10, Window: aLongTime, Overdraw: true})
		if err != nil {
			t.Fatal(err)
		}
		other := limitOf(t, name, 5, aLongTime)
		for i, step := range []struct {
			hits, otherHits int64
			want            string
		}{
			{8, 1, "ok:2 ok:4"},
			{8, 1, "over:0 ok:4"}, // charged in full, though it does not fit; the other is not
			{0, 0, "over:0 ok:4"}, // over for a look too
		} {
			got := show(s.decide(t,
				algorithm.Ask{Key: key(t, "a", "budget"), Limit: l, Hits: step.hits},
				algorithm.Ask{Key: key(t, "b", "other"), Limit: other, Hits: step.otherHits}))
			if got != step.want {
				t.Errorf("step %d: %s, want %s", i, got, step.want)
			}
		}
		if got := s.decide(t, algorithm.Ask{Key: key(t, "a", "budget"), Limit: l})[0].After; name != "sliding_window_log" && got != 16 {
			t.Errorf("used %d, want 16", got)
		}
	})
}

func sameKeyTwice(t *testing.T, s *testStore) {
	forEachAlgorithm(t, func(t *testing.T, name string) {
		l := limitOf(t, name, 3, aLongTime)
		ask := func(hits int64) algorithm.Ask { return algorithm.Ask{Key: key(t, "a", "key"), Limit: l, Hits: hits} }
		for i, step := range []struct {
			first, second int64
			want          string
		}{
			{1, 3, "ok:3 over:3"}, // judged on what the first left; nothing is charged
			{1, 1, "ok:2 ok:1"},
			{0, 0, "ok:1 ok:1"},
		} {
			if got := show(s.decide(t, ask(step.first), ask(step.second))); got != step.want {
				t.Errorf("step %d: %s, want %s", i, got, step.want)
			}
		}
	})
}

// A batch decides as its requests would have been one after another, where the
// keys of each lie in one place.
func batchOfRequests(t *testing.T, s *testStore) {
	forEachAlgorithm(t, func(t *testing.T, name string) {
		l := limitOf(t, name, 3, aLongTime)
		var asks []algorithm.Ask
		for group := range 5 {
			asks = append(asks,
				algorithm.Ask{Key: key(t, "a", "shared"), Limit: l, Hits: 1, Group: int32(group)},
				algorithm.Ask{Key: key(t, "a", fmt.Sprint(group)), Limit: l, Hits: 1, Group: int32(group)},
				algorithm.Ask{Key: key(t, "a", "plenty"), Limit: limitOf(t, name, 101, aLongTime), Hits: 1, Group: int32(group)})
		}
		want := "ok:2 ok:2 ok:100 ok:1 ok:2 ok:99 ok:0 ok:2 ok:98 over:0 ok:3 ok:98 over:0 ok:3 ok:98"
		if got := show(s.decide(t, asks...)); got != want {
			t.Errorf("\n got %s\nwant %s", got, want)
		}
	})
}

func anyBytesInKeys(t *testing.T, s *testStore) {
	l := limitOf(t, "fixed_window", 2, aLongTime)
	before := s.keys(t)
	names := []string{"", "\x00", "\xff\xfe", "a b", "\r\n", "{", "}", "{}", "\"'", string(make([]byte, 1<<16))}
	for _, name := range names {
		ask := algorithm.Ask{Key: key(t, "x", name), Limit: l, Hits: 1}
		if got := show(s.decide(t, ask)); got != "ok:1" {
			t.Errorf("%.10q: %s, want ok:1", name, got)
		}
	}
	if got := s.keys(t) - before; got != len(names) {
		t.Errorf("%d keys, want %d", got, len(names))
	}
}

func manyDescriptors(t *testing.T, s *testStore) {
	l := limitOf(t, "token_bucket", 5, aLongTime)
	asks := make([]algorithm.Ask, 10_000)
	for i := range asks {
		asks[i] = algorithm.Ask{Key: key(t, fmt.Sprint(i%3), fmt.Sprint(i)), Limit: l, Hits: 1}
	}
	began := time.Now()
	out := s.decide(t, asks...)
	t.Logf("%d asks in %v", len(asks), time.Since(began))
	for i := range out {
		if out[i].Outcome != algorithm.Allowed || out[i].Remaining != 4 {
			t.Fatalf("ask %d: %s", i, show(out[i:i+1]))
		}
	}
}

func calendarWindows(t *testing.T, s *testStore) {
	zone, err := time.LoadLocation("Europe/Paris")
	if err != nil {
		t.Fatal(err)
	}
	for unit := algorithm.CalendarHour; unit <= algorithm.CalendarYear; unit++ {
		l, err := algorithm.NewLimit(algorithm.Spec{Requests: 2, Window: time.Hour, Calendar: &algorithm.Calendar{Unit: unit, Zone: zone}})
		if err != nil {
			t.Fatal(err)
		}
		ask := algorithm.Ask{Key: key(t, "a", fmt.Sprint(unit)), Limit: l, Hits: 1}
		_, end := l.Calendar.Window(time.Now().UnixMicro())
		for i, want := range []string{"ok:1", "ok:0", "over:0"} {
			out := s.decide(t, ask)
			if got := show(out); got != want {
				t.Errorf("unit %d step %d: %s, want %s", unit, i, got, want)
			}
			if ends := time.Now().Add(out[0].Reset); ends.Sub(time.UnixMicro(end)).Abs() > 5*time.Second {
				t.Errorf("unit %d step %d: resets at %v, want %v", unit, i, ends, time.UnixMicro(end))
			}
		}
	}
}

// A key of a one-second rule is gone a few seconds later, and none lives on for
// ever.
func keysExpire(t *testing.T, s *testStore) {
	before := s.keys(t)
	for _, a := range algorithm.All {
		s.decide(t, algorithm.Ask{Key: key(t, "a", a.Name), Limit: limitOf(t, a.Name, 5, time.Second), Hits: 5})
	}
	if got := s.keys(t) - before; got != len(algorithm.All) {
		t.Errorf("%d keys, want %d", got, len(algorithm.All))
	}
	for _, server := range s.servers {
		cursor := any("0")
		for {
			reply := server.Do(t, "scan", cursor, "count", 10_000).([]any)
			for _, k := range reply[1].([]any) {
				if ttl := server.Do(t, "pttl", k).(int64); ttl == -1 {
					t.Errorf("key %.60q never expires", k)
				}
			}
			if cursor = reply[0]; cursor == "0" {
				break
			}
		}
	}
	for _, cache := range s.caches {
		for k, expires := range cache.Expiries(t) {
			if expires == -1 {
				t.Errorf("key %q never expires", k)
			}
		}
	}
	deadline := time.Now().Add(5 * time.Second)
	for s.keys(t) > before {
		if time.Now().After(deadline) {
			t.Fatalf("%d keys are still there", s.keys(t)-before)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
