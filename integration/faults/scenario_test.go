package faults

import (
	"cmp"
	"strings"
	"testing"
	"time"
)

const (
	// rate is how many calls a second a run has.
	rate = 400

	// outage is how long a fault lasts.
	outage = time.Second

	// storeTimeout is the budget of an answer here. It is longer than the default, so that a busy machine is not taken for a fault.
	storeTimeout = 100 * time.Millisecond
)

// now is the instant.
func now() instant { return instant(time.Now().UnixMicro()) }

// scenario is one fault.
type scenario struct {
	name   string
	build  func(*testing.T) *stage
	strike func(*testing.T, *stage) fault

	// For runs in which something is not as it is to be: more settings of ratelimitd, a program that can lack a protection, which one,
	// and what is done to the fault before the checker is told of it.
	settings       []string
	program, lacks string
	tamper         func(*fault)
}

func TestFaults(t *testing.T) {
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			v := s.run(t)
			t.Logf("%d calls, %d failed, %d degraded, slowest %v, recovered %v after; over %d of %d, phantom %d of %d, the machine stalled for %v",
				v.calls, v.failed, v.degraded, v.slowest, v.recovered, v.over, v.overBound, v.phantom, v.phantomBound, v.stalled)
			for _, problem := range v.problems[:min(len(v.problems), 10)] {
				t.Error(problem)
			}
		})
	}
}

// run lets the load go on before the fault, during it and after it, and returns the verdict.
func (s *scenario) run(t *testing.T) *verdict {
	t.Helper()
	stage := s.build(t)
	rules, dir := ruleBook(t, kinds)
	program := cmp.Or(s.program, ratelimitdPath)
	stage.replicas = startFleet(t, program, dir, append(onRedis(stage.url), append(s.settings, lacking+"="+s.lacks)...))
	w := watch(t, stage.clients(t), stage.replicas)
	stage.rules, stage.load = rules, startLoad(t, stage.replicas, rules, rate, 1)
	stage.load.goOn(t, 600*time.Millisecond)
	f := s.strike(t, stage)
	if s.tamper != nil {
		s.tamper(&f)
	}
	stage.load.goOn(t, recovery+room+room)
	h := &history{rules: rules, calls: stage.load.stop(), faults: []fault{f}, stalls: w.stop(f), used: map[string]int64{}}
	for key, r := range rules {
		if used, ok := look(t, stage.replicas[0], key, r.limit.Capacity); ok && strings.HasSuffix(key, "/tally") {
			h.used[key] = used
		}
	}
	return check(h, promises{budget: storeTimeout})
}
