package backend

import (
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ratelimitd/ratelimitd/internal/redistest"
	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// replica is a process as the program wires it, without its front.
type replica struct {
	*FailurePolicy
	redis    *Redis
	replicas *Replicas
	reg      *prometheus.Registry
}

// openReplica opens one that waits no longer than Envoy lets it.
func openReplica(t *testing.T, url string) *replica {
	r, reg := openRedis(t, url, nil)
	log := slog.New(slog.DiscardHandler)
	known := WithKnownOver(r, KnownOverOptions{Registerer: reg})
	replicas := JoinReplicas(r, ReplicasOptions{Registerer: reg, Log: log})
	t.Cleanup(replicas.Close)
	local := NewLocal(known, LocalOptions{Replicas: replicas.Count, Registerer: reg, Log: log})
	t.Cleanup(local.Close)
	p := WithFailurePolicy(known, FailureOptions{Local: local, Registerer: reg, Timeout: 20 * time.Millisecond})
	return &replica{p, r, replicas, reg}
}

// Three replicas lose their Redis, go on with a third of each limit, and count
// in Redis what they admitted when it is back.
func TestLocalWithoutRedis(t *testing.T) {
	for _, row := range []struct {
		name       string
		leave      func(s *redistest.Server)
		comeBack   func(t *testing.T, s *redistest.Server)
		remembered int64 // of what was admitted before
		doubled    int64 // at most: calls that timed out, and were run later
	}{
		{"killed", (*redistest.Server).Kill, func(t *testing.T, s *redistest.Server) { s.Restart(t) }, 0, 0},
		{"paused", (*redistest.Server).Pause, func(_ *testing.T, s *redistest.Server) { s.Resume() }, 12, 90},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t, redistest.Options{})
			var all []*replica
			for range 3 {
				all = append(all, openReplica(t, s.URL()))
			}
			for _, r := range all {
				await(t, "replicas are counted", func() bool { return r.replicas.Count() == 3 })
			}
			limits := map[string]*algorithm.Limit{}
			for _, a := range algorithm.All {
				limits[a.Name] = limitOf(t, a.Name, 30, aLongTime)
				if d := decideAll(all[0].redis, localAsk("{a}"+a.Name, limits[a.Name], 12))[0]; d.Outcome != algorithm.Allowed {
					t.Fatalf("%v: %v", d.Outcome, d.Err)
				}
			}
			row.leave(s)
			for _, r := range all {
				await(t, "it is noticed", func() bool { return decideAll(r, localAsk("{a}other", limits["fixed_window"], 1))[0].Degraded })
			}
			for name, l := range limits {
				for i, r := range all {
					admitted := 0
					for range 30 {
						d := decideAll(r, localAsk("{a}"+name, l, 1))[0]
						if !d.Degraded {
							t.Fatalf("%s: %v by the store, %v", name, d.Outcome, d.Err)
						}
						if d.Outcome == algorithm.Allowed {
							admitted++
						}
					}
					if admitted != 10 {
						t.Errorf("%s: replica %d admits %d, want 10", name, i, admitted)
					}
				}
			}
			row.comeBack(t, s)
			for name, l := range limits {
				want := row.remembered + 30
				if name == "sliding_window_log" {
					want = min(want, 31) // a log keeps no more than decides
				}
				used := func() int64 { return decideAll(all[0].redis, localAsk("{a}"+name, l, 0))[0].After }
				await(t, name+" comes home", func() bool { return used() >= want })
				if got := used(); got > want+row.doubled {
					t.Errorf("%s: Redis stands at %d, want %d to %d", name, got, want, want+row.doubled)
				}
				await(t, "Redis denies the next", func() bool {
					d := decideAll(all[1], localAsk("{a}"+name, l, 1))[0]
					return d.Outcome == algorithm.Denied && !d.Degraded
				})
			}
		})
	}
}
