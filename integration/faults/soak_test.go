package faults

import (
	"context"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// soaking is how long a soak goes on: twenty seconds, or what SOAK in the environment says.
var soaking = duration("SOAK", 20*time.Second)

// accident is something that happens in a soak. It returns when it is over.
type accident struct {
	name   string
	strike func(*testing.T, *stage) fault
}

// accidents keep Redis' data, but for one.
var accidents = []accident{
	{"Redis stands still", exposing(during(pause, resume))},
	{"Redis is killed", during(kill, restart)},
	{"Redis forgets the script", flushScripts},
	{"Redis forgets all", losing(func(t *testing.T, s *stage) fault {
		t.Helper()
		f := fault{began: now()}
		s.redis().Do(t, "flushall")
		f.ended = now()
		return f
	})},
	{"the network is cut", during(func(_ *testing.T, s *stage) { s.proxy.Stop() }, func(t *testing.T, s *stage) {
		t.Helper()
		s.proxy.reconnect(t)
	})},
	{"the network is too slow", exposing(spoiling(`{"type": "latency", "attributes": {"latency": 300}}`))},
	{"the network is silent", exposing(spoiling(`{"type": "timeout", "attributes": {"timeout": 0}}`))},
	{"a replica is killed", func(t *testing.T, s *stage) fault {
		t.Helper()
		f := fault{gone: len(s.replicas), began: now()}
		last := s.replicas[len(s.replicas)-1]
		s.lostHome += last.lostHome()
		last.Kill()
		s.load.goOn(t, outage)
		last.start(t)
		f.ended = now()
		return f
	}},
}

// Whatever happens again and again, in whatever order: nothing wrong is answered beyond the bounds, and nothing is left behind.
func TestSoak(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("for %v; SEED=%d repeats what happens", soaking, seed)
	v := conclusive(t, func() *verdict { return soak(t, seed) }, func(v *verdict) bool { return len(v.problems) == 0 })
	for _, problem := range v.problems[:min(len(v.problems), 10)] {
		t.Error(problem)
	}
}

// soak is one run.
func soak(t *testing.T, seed uint64) *verdict {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 0))
	stage := proxiedWithData(t)
	h := stage.begin(t)
	before := stage.resources()
	w := watch(t, stage.clients(t), stage.replicas)
	for end := time.Now().Add(soaking); time.Now().Before(end); {
		stage.load.goOn(t, recovery+room+time.Duration(random.IntN(1000))*time.Millisecond)
		a := accidents[random.IntN(len(accidents))]
		f := a.strike(t, stage)
		h.faults = append(h.faults, f)
		if soaking > time.Minute {
			t.Logf("%v: %s for %v", f.began.since(h.faults[0].began).Round(time.Second), a.name, f.ended.since(f.began))
		}
	}
	stage.load.goOn(t, recovery+room+room)
	h.calls, h.stalls = stage.load.stop(), w.stop(h.faults...)
	stage.look(t, h)
	v := check(h, promises{budget: storeTimeout})
	t.Logf("%d faults, %+v; the machine stalled for %v", len(h.faults), v.row("all"), v.stalled)
	stage.allExpire(t)
	stage.nothingLeftBehind(t, before)
	for _, r := range stage.replicas {
		r.Kill()
	}
	return v
}

// proxiedWithData is one server that keeps its data when it is killed, behind a network that can be spoilt. What it has written is kept
// although it never waits for the disk: it is the process that is killed, and not the machine.
func proxiedWithData(t *testing.T) *stage {
	t.Helper()
	s := single("appendonly yes", "appendfsync no")(t)
	s.proxy = startProxy(t, s.redis().Address)
	s.url = s.proxy.URL()
	return s
}

// begin starts the replicas and the load.
func (s *stage) begin(t *testing.T) *history {
	t.Helper()
	var dir string
	s.rules, dir = ruleBook(t, kinds)
	s.replicas = startFleet(t, ratelimitdPath, dir, onRedis(s.url))
	s.load = startLoad(t, s.replicas, s.rules, rate, 1)
	s.load.goOn(t, time.Second)
	return &history{rules: s.rules, used: map[string]int64{}}
}

// allExpire fails the test when Redis holds a key that would stay for ever.
func (s *stage) allExpire(t *testing.T) {
	t.Helper()
	client, ctx := s.clients(t)[0], context.Background()
	keys := 0
	for all := client.Scan(ctx, 0, "", 1000).Iterator(); all.Next(ctx); keys++ {
		if ttl := client.PTTL(ctx, all.Val()).Val(); ttl == -1 {
			t.Errorf("%q has no expiry", all.Val())
		}
	}
	if keys == 0 {
		t.Error("Redis holds no keys: there is nothing to judge")
	}
}

// resource is something of which a process must not have ever more.
type resource struct {
	metric string
	more   float64 // how much more is no leak
}

var resources = []resource{{"go_goroutines", 50}, {"process_open_fds", 50}, {"process_resident_memory_bytes", 64 << 20}}

// resources returns what each replica has of each.
func (s *stage) resources() [][]float64 {
	var all [][]float64
	for _, r := range s.replicas {
		var own []float64
		for _, of := range resources {
			own = append(own, r.metric(of.metric))
		}
		all = append(all, own)
	}
	return all
}

// nothingLeftBehind fails the test when a replica comes to have much more than before, or Redis more connections than are allowed.
func (s *stage) nothingLeftBehind(t *testing.T, before [][]float64) {
	t.Helper()
	for i, own := range s.resources() {
		for j, n := range own {
			if before[i][j] == 0 || n > before[i][j]+resources[j].more {
				t.Errorf("replica %d: %s went from %.0f to %.0f", i+1, resources[j].metric, before[i][j], n)
			}
		}
	}
	const pool, others = 32, 10
	info := s.redis().Do(t, "info", "clients").(string)
	_, text, _ := strings.Cut(info, "connected_clients:")
	text, _, _ = strings.Cut(text, "\r\n")
	if n, err := strconv.Atoi(text); err != nil || n > replicas*pool+others {
		t.Errorf("Redis has %q connections, at most %d are allowed: %v", text, replicas*pool+others, err)
	}
}
