package faults

import (
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/ratelimitd/ratelimitd/internal/redistest"
)

// now is the instant.
func now() instant { return instant(time.Now().UnixMicro()) }

// scenario is one fault.
type scenario struct {
	name     string
	settings []string // of ratelimitd, beside the store's
	config   []string // of Redis
	strike   func(t *testing.T, redis *redistest.Server, l *load) fault
}

// outage is how long a fault lasts.
const outage = time.Second

// rate is calls a second.
const rate = 400

// storeTimeout is the budget of an answer.
const storeTimeout = 100 * time.Millisecond

var scenarios = []scenario{
	{
		name: "nothing",
		strike: func(_ *testing.T, _ *redistest.Server, _ *load) fault {
			return fault{began: now(), ended: now()}
		},
	},
	{
		name: "stopped (SIGSTOP)",
		strike: func(t *testing.T, redis *redistest.Server, l *load) fault {
			f := fault{began: now()}
			redis.Pause()
			l.goOn(t, outage)
			redis.Resume()
			f.ended = now()
			f.exposed = f.ended.since(f.began) + room
			return f
		},
	},
	{
		name: "killed, back without data",
		strike: func(t *testing.T, redis *redistest.Server, l *load) fault {
			f := fault{began: now(), loses: true}
			redis.Kill()
			l.goOn(t, outage)
			redis.Restart(t)
			f.ended = now()
			return f
		},
	},
	{
		name:   "killed, back with its data",
		config: []string{"appendonly yes", "appendfsync everysec"},
		strike: func(t *testing.T, redis *redistest.Server, l *load) fault {
			f := fault{began: now()}
			redis.Kill()
			l.goOn(t, outage)
			redis.Restart(t)
			f.ended = now()
			return f
		},
	},
	{
		name: "script cache flushed",
		strike: func(t *testing.T, redis *redistest.Server, l *load) fault {
			f := fault{began: now()}
			for range 10 {
				redis.Do(t, "script", "flush")
				l.goOn(t, outage/10)
			}
			f.ended = now()
			return f
		},
	},
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
	redis := redistest.Start(t, redistest.Options{Config: s.config})
	rules, dir := ruleBook(t, kinds)
	servers := startFleet(t, dir, append(onRedis(redis.URL()), s.settings...))
	w := watch(t, []*goredis.Client{direct(t, redis)}, servers)
	l := startLoad(t, servers, rules, rate, 1)
	l.goOn(t, 600*time.Millisecond)
	f := s.strike(t, redis, l)
	l.goOn(t, recovery+room+300*time.Millisecond)
	h := &history{rules: rules, calls: l.stop(), faults: []fault{f}, stalls: w.stop(), used: map[string]int64{}}
	for key, r := range rules {
		if strings.HasSuffix(key, "/tally") {
			h.used[key] = look(t, servers[0], key, r.limit.Capacity)
		}
	}
	return check(h, promises{budget: storeTimeout})
}

// direct returns a client of a Redis that knows no detour.
func direct(t *testing.T, server *redistest.Server) *goredis.Client {
	t.Helper()
	client := server.Client()
	t.Cleanup(func() { _ = client.Close() })
	return client
}
