package faults

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// ms is an instant of the histories below, some way from the epoch so that there is a time before.
func ms(n int) instant {
	return instant(time.Hour.Microseconds()).plus(time.Duration(n) * time.Millisecond)
}

// told says what n calls to one key were told, one after another, each taking a millisecond.
func (h *history) add(from, n int, key string, what told, degraded bool) {
	for i := range n {
		h.calls = append(h.calls, call{key: key, sent: ms(from + i), back: ms(from + i + 1), told: what, degraded: degraded})
	}
}

// Each row is a history and what the checker finds wrong with it, "" for nothing. Unless a row says otherwise the limit is 5 in
// 100 hours, and a fault lasts from 1000 to 2000.
func TestChecker(t *testing.T) {
	outage := fault{began: ms(1000), ended: ms(2000)}
	tests := []struct {
		name string
		spec algorithm.Spec
		do   func(h *history)
		want string
	}{
		{"all of the limit, then no more", algorithm.Spec{}, func(h *history) {
			h.add(0, 5, "error", admitted, false)
			h.add(10, 9, "error", refused, false)
			h.used["error"] = 5
		}, ""},
		{"one too many", algorithm.Spec{}, func(h *history) { h.add(0, 6, "error", admitted, false) }, "1 admitted beyond the limit of 5"},
		{"refused too early", algorithm.Spec{}, func(h *history) {
			h.add(0, 4, "error", admitted, false)
			h.add(10, 2, "error", refused, false)
		}, "2 refused although the limit of 5"},
		{"refused while the last was under way", algorithm.Spec{}, func(h *history) {
			h.add(0, 5, "error", admitted, false)
			h.calls = append(h.calls, call{key: "error", sent: ms(4), back: ms(6), told: refused})
		}, ""},
		{"late", algorithm.Spec{}, func(h *history) {
			h.calls = append(h.calls, call{key: "error", sent: ms(0), back: ms(351), told: admitted})
		}, "admitted after 351ms"},
		{"late on a machine that was too busy", algorithm.Spec{}, func(h *history) {
			h.calls = append(h.calls, call{key: "error", sent: ms(0), back: ms(351), told: admitted})
			h.stalls = []span{{ms(-10), ms(5)}}
		}, ""},
		{"failed while all was well", algorithm.Spec{}, func(h *history) { h.add(0, 1, "error", failed, false) }, "failed by policy"},
		{"failed in the fault and soon after", algorithm.Spec{}, func(h *history) {
			h.add(1000, 3000, "error", failed, false)
		}, ""},
		{"still failed later", algorithm.Spec{}, func(h *history) { h.add(4251, 1, "error", failed, false) }, "failed by policy"},
		{"what policies say", algorithm.Spec{}, func(h *history) {
			h.add(1000, 9, "allow", admitted, true)
			h.add(1000, 9, "deny", refused, true)
		}, ""},
		{"an error by policy allow", algorithm.Spec{}, func(h *history) { h.add(1000, 1, "allow", failed, false) }, "failed in place of the store"},
		{"admitted by policy deny", algorithm.Spec{}, func(h *history) { h.add(1000, 1, "deny", admitted, true) }, "admitted in place of the store"},
		{"refused by policy error", algorithm.Spec{}, func(h *history) { h.add(1000, 1, "error", refused, true) }, "refused in place of the store"},
		{"refused for calls that may have been charged", algorithm.Spec{}, func(h *history) {
			h.add(1000, 5, "error", failed, false)
			h.add(2500, 1, "error", refused, false)
		}, ""},
		{"a second limit after a loss", algorithm.Spec{}, func(h *history) {
			h.faults[0].loses = true
			h.add(0, 5, "error", admitted, false)
			h.add(2000, 5, "error", admitted, false)
			h.add(2010, 5, "error", refused, false)
			h.used["error"] = 5
		}, ""},
		{"a second limit without a loss", algorithm.Spec{}, func(h *history) {
			h.add(0, 5, "error", admitted, false)
			h.add(2001, 5, "error", admitted, false)
		}, "5 admitted beyond the limit"},
		{"a third limit after a loss", algorithm.Spec{}, func(h *history) {
			h.faults[0].loses = true
			h.add(0, 5, "error", admitted, false)
			h.add(2001, 10, "error", admitted, false)
		}, "5 admitted beyond the limit"},
		{"too many before a loss", algorithm.Spec{}, func(h *history) {
			h.faults[0].loses = true
			h.add(0, 7, "error", admitted, false)
		}, "2 admitted beyond the limit before the fault"},
		{"refused long after a loss", algorithm.Spec{}, func(h *history) {
			h.faults[0].loses = true
			h.add(0, 5, "error", admitted, false)
			h.add(3300, 1, "error", refused, false)
		}, "1 refused although"},
		{"a loss of the last moment only", algorithm.Spec{}, func(h *history) {
			h.faults[0].loses, h.faults[0].lostFrom = true, ms(900)
			h.add(0, 3, "error", admitted, false)
			h.add(950, 2, "error", admitted, false)
			h.add(2001, 3, "error", admitted, false)
		}, "1 admitted beyond the limit"},
		{"less in the end than was admitted", algorithm.Spec{}, func(h *history) {
			h.add(0, 3, "error", admitted, false)
			h.used["error"] = 2
		}, "holds 2 in the end, 3 were admitted"},
		{"charged twice", algorithm.Spec{}, func(h *history) {
			h.add(0, 2, "error", admitted, false)
			h.used["error"] = 4
		}, "2 more were charged than admitted"},
		{"charged unheard when the fault began", algorithm.Spec{}, func(h *history) {
			h.calls = append(h.calls, call{key: "error", sent: ms(995), back: ms(1095), told: failed})
			h.used["error"] = 1
		}, ""},
		{"charged unheard later in the fault", algorithm.Spec{}, func(h *history) {
			h.add(1500, 1, "error", failed, false)
			h.used["error"] = 1
		}, "1 more were charged than admitted or on their way"},
		{"probes that are charged and waited for", algorithm.Spec{}, func(h *history) {
			h.faults[0].probes = 2
			h.calls = append(h.calls, call{key: "error", sent: ms(1500), back: ms(1600)}, call{key: "error", sent: ms(1500), back: ms(1600)})
			h.used["error"] = 2
		}, ""},
		{"calls that wait for a store that is known to be away", algorithm.Spec{}, func(h *history) {
			h.calls = append(h.calls, call{key: "error", sent: ms(1500), back: ms(1600)})
		}, "1 waited for a store"},
		{"replicas that each admit the whole limit", algorithm.Spec{}, func(h *history) { h.add(1000, 15, "local", admitted, true) }, "10 beyond the limit of which"},
		{"a share that was brought home", algorithm.Spec{}, func(h *history) {
			h.add(0, 2, "local", admitted, false)
			h.add(1000, 3, "local", admitted, true)
			h.add(3000, 1, "local", refused, false)
			h.used["local"] = 5
		}, ""},
		{"a share that was not brought home", algorithm.Spec{}, func(h *history) {
			h.add(0, 2, "local", admitted, false)
			h.add(1000, 3, "local", admitted, true)
			h.used["local"], h.lostHome = 3, 1
		}, "2 that replicas admitted by themselves were not brought home, and 1 may be lost"},
		{"replicas that each admit a share", algorithm.Spec{}, func(h *history) { h.add(1000, 5, "local", admitted, true) }, ""},
		{"no answer from a replica that is gone", algorithm.Spec{}, func(h *history) {
			h.faults[0].gone = 1
			h.add(1000, 1, "allow", failed, false)
		}, ""},
		{"no answer from another replica than the one that is gone", algorithm.Spec{}, func(h *history) {
			h.faults[0].gone = 2
			h.add(1000, 1, "allow", failed, false)
		}, "failed by policy allow after"},
		{"windows that follow each other", algorithm.Spec{Algorithm: "fixed_window", Window: time.Second}, func(h *history) {
			h.add(990, 5, "error", admitted, false)
			h.add(1000, 5, "error", admitted, false)
			h.add(1005, 1, "error", refused, false)
		}, ""},
		{"two limits in one window", algorithm.Spec{Algorithm: "fixed_window", Window: time.Second}, func(h *history) {
			h.add(100, 10, "error", admitted, false)
		}, "5 admitted beyond the limit"},
		{"a log over the boundary", algorithm.Spec{Algorithm: "sliding_window_log", Window: time.Second}, func(h *history) {
			h.add(990, 5, "error", admitted, false)
			h.add(1000, 1, "error", admitted, false)
		}, "1 admitted beyond the limit"},
		{"a log that has forgotten", algorithm.Spec{Algorithm: "sliding_window_log", Window: time.Second}, func(h *history) {
			h.add(0, 5, "error", admitted, false)
			h.add(1100, 1, "error", refused, false)
		}, "1 refused although"},
		{"a bucket that refills", algorithm.Spec{Algorithm: "token_bucket", Window: time.Second}, func(h *history) {
			h.add(0, 5, "error", admitted, false)
			h.add(10, 1, "error", refused, false)
			h.add(210, 1, "error", admitted, false)
		}, ""},
		{"a bucket that was full early on in a slow call", algorithm.Spec{Algorithm: "leaky_bucket", Window: time.Second}, func(h *history) {
			h.add(0, 3, "error", admitted, false)
			h.calls = append(h.calls, call{key: "error", sent: ms(10), back: ms(340), told: admitted},
				call{key: "error", sent: ms(10), back: ms(340), told: admitted}, call{key: "error", sent: ms(11), back: ms(345), told: refused})
		}, ""},
		{"a bucket that has refilled", algorithm.Spec{Algorithm: "leaky_bucket", Window: time.Second}, func(h *history) {
			h.add(0, 5, "error", admitted, false)
			h.add(215, 1, "error", refused, false)
		}, "1 refused although"},
		{"a bucket that refills too fast", algorithm.Spec{Algorithm: "leaky_bucket", Window: time.Second}, func(h *history) {
			h.add(0, 5, "error", admitted, false)
			h.add(50, 2, "error", admitted, false)
		}, "1 admitted beyond the limit"},
		{"the weight of the window before", algorithm.Spec{Algorithm: "sliding_window_counter", Window: time.Second}, func(h *history) {
			h.add(900, 5, "error", admitted, false)
			h.add(1100, 1, "error", refused, false) // 0.9 of 5 are left
		}, ""},
		{"the weight has faded", algorithm.Spec{Algorithm: "sliding_window_counter", Window: time.Second}, func(h *history) {
			h.add(900, 5, "error", admitted, false)
			h.add(1300, 1, "error", refused, false)
		}, "1 refused although"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			h := &history{rules: map[string]rule{}, faults: []fault{outage}, used: map[string]int64{}}
			test.spec.Requests = 5
			if test.spec.Window == 0 {
				test.spec.Window = long
			}
			limit, err := algorithm.NewLimit(test.spec)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range policies {
				h.rules[p.name] = rule{limit, p.policy}
			}
			test.do(h)
			v := check(h, promises{budget: 100 * time.Millisecond})
			switch {
			case test.want == "" && len(v.problems) > 0:
				t.Errorf("found %q, want nothing", v.problems)
			case test.want != "" && !strings.Contains(fmt.Sprint(v.problems), test.want):
				t.Errorf("found %q, want %q", v.problems, test.want)
			}
		})
	}
}

func TestApart(t *testing.T) {
	spans := apart([]span{{5, 7}, {1, 3}, {2, 4}, {9, 10}, {6, 6}})
	if got := fmt.Sprint(spans); got != "[{1 4} {5 7} {9 10}]" || length(spans) != 6*time.Microsecond {
		t.Errorf("got %s of %v", got, length(spans))
	}
}
