package faults

import (
	"cmp"
	"flag"
	"os"
	"strings"
	"testing"
	"time"
)

const (
	// rate is how many calls a second a run has.
	rate = 400

	// storeTimeout is the budget of an answer here. It is longer than the default, so that a busy machine is not taken for a fault.
	storeTimeout = 100 * time.Millisecond
)

// outage is how long a fault lasts: a second, or what OUTAGE in the environment says.
var outage = duration("OUTAGE", time.Second)

// duration returns what the environment says, or else a default.
func duration(name string, otherwise time.Duration) time.Duration {
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		panic(name + ": " + err.Error()) // the run was started wrongly
	}
	return d
}

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

var recording = flag.Bool("record", false, "write what the faults have shown into testdata, for the page")

// Every fault is borne as it is promised. With -record, the page has a new table.
func TestFaults(t *testing.T) {
	shown := make([]row, len(scenarios))
	t.Run("all", func(t *testing.T) {
		for i, s := range scenarios {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				v := conclusive(t, func() *verdict { return s.run(t) }, func(v *verdict) bool { return len(v.problems) == 0 })
				shown[i] = v.row(s.name)
				t.Logf("%+v; the machine stalled for %v", shown[i], v.stalled)
				for _, problem := range v.problems[:min(len(v.problems), 10)] {
					t.Error(problem)
				}
			})
		}
	})
	t.Logf("\n%s", table(shown))
	if *recording && !t.Failed() {
		write(t, published, shown)
	}
}

// conclusive runs again what was not as it is to be on a machine that was too busy to tell, twice at most.
func conclusive(t *testing.T, run func() *verdict, asItIsToBe func(*verdict) bool) *verdict {
	t.Helper()
	const busy, again = 200 * time.Millisecond, 2
	v := run()
	for range again {
		if asItIsToBe(v) || v.stalled < busy {
			break
		}
		t.Logf("the machine stalled for %v; once more, since then there was: %q", v.stalled, v.problems[:min(len(v.problems), 3)])
		v = run()
	}
	return v
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
	stage.look(t, h)
	for _, r := range stage.replicas {
		r.Kill()
	}
	return check(h, promises{budget: storeTimeout})
}

// look notes what the keys hold in the end, and what replicas say that they have lost.
func (s *stage) look(t *testing.T, h *history) {
	t.Helper()
	for key, r := range h.rules {
		if used, ok := look(t, s.replicas[0], key, r.limit.Capacity); ok && strings.HasSuffix(key, "/tally") {
			h.used[key] = used
		}
	}
	h.lostHome = s.lostHome
	for _, r := range s.replicas {
		h.lostHome += r.lostHome()
	}
}
