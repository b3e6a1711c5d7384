package algorithm

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ratelimitd/ratelimitd/internal/redistest"
)

// An oracle decides calls in Go as the script does in Redis.
type oracle struct {
	states map[string]*State
}

func (o *oracle) decide(now int64, asks []Ask, out []Decision) {
	for from := 0; from < len(asks); {
		to := from
		for to < len(asks) && asks[to].Group == asks[from].Group {
			to++
		}
		states := make([]*State, 0, to-from)
		for i := from; i < to; i++ {
			key := string(asks[i].Key)
			if o.states[key] == nil {
				o.states[key] = &State{}
			}
			states = append(states, o.states[key])
		}
		Decide(now, asks[from:to], states, out[from:to])
		from = to
	}
}

// A scripted runs calls in a real Redis.
type scripted struct {
	client *redis.Client
	sha    string
	call   Call
}

func newScripted(t testing.TB) *scripted {
	t.Helper()
	client := redistest.Start(t, redistest.Options{}).Client()
	sha, err := client.ScriptLoad(context.Background(), Script).Result()
	if err != nil {
		t.Fatalf("load script: %v", err)
	}
	return &scripted{client: client, sha: sha}
}

func (s *scripted) decide(t testing.TB, now int64, asks []Ask, out []Decision) {
	t.Helper()
	s.call.Reset(asks, now, now, time.Hour) // the test's clock is not the server's
	if err := s.call.Decode(s.run(t), out); err != nil {
		t.Fatal(err)
	}
}

// run sends the call and returns the reply.
func (s *scripted) run(t testing.TB) []byte {
	t.Helper()
	keys := make([]string, len(s.call.Keys()))
	for i, key := range s.call.Keys() {
		keys[i] = string(key)
	}
	reply, err := s.client.EvalSha(context.Background(), s.sha, keys, s.call.Args()).Text()
	if err != nil {
		t.Fatalf("script: %v", err)
	}
	return []byte(reply)
}

// TestGoAndLuaAgree plays random histories of whole calls, of several requests
// with several asks of mixed algorithms and modes on few keys, in Go and in a
// real Redis.
func TestGoAndLuaAgree(t *testing.T) {
	const histories, callsEach = 110, 90
	redis := newScripted(t)
	steps, limits := 0, 0
	for seed := range uint64(histories) {
		r := rand.New(rand.NewPCG(seed, 2))
		keys := make([]*Limit, 5)
		if seed%4 == 0 {
			keys = make([]*Limit, 5*few)
		}
		for i := range keys {
			keys[i] = randomLimit(r)
		}
		limits += len(keys)
		goSide := &oracle{states: map[string]*State{}}
		now := earliest + r.Int64N(latest-earliest)
		for step := range callsEach {
			now = randomStep(r, keys[r.IntN(len(keys))], now)
			if r.IntN(20) == 0 {
				i := r.IntN(len(keys))
				keys[i] = anotherSize(r, keys[i])
				limits++
			}
			asks := randomAsks(r, seed, keys)
			want, got := make([]Decision, len(asks)), make([]Decision, len(asks))
			goSide.decide(now, asks, want)
			redis.decide(t, now, asks, got)
			for i := range asks {
				if got[i] != want[i] {
					t.Fatalf("history %d call %d at %d, ask %d of %d (%v, %d hits, mode %d, %+v):\n lua %+v\n go  %+v",
						seed, step, now, i, len(asks), asks[i].Limit, asks[i].Hits, asks[i].Mode, asks[i], got[i], want[i])
				}
			}
			redis.compareStates(t, now, asks)
			steps += len(asks)
		}
	}
	t.Logf("%d steps on %d limits", steps, limits)
	if steps < 100_000 || limits < 500 {
		t.Fatalf("only %d steps on %d limits", steps, limits)
	}
}

// anotherSize returns a limit that may share its key with l: of the same
// algorithm and window.
func anotherSize(r *rand.Rand, l *Limit) *Limit {
	for range 200 {
		if other := randomLimit(r); other.Algorithm == l.Algorithm {
			spec := Spec{Algorithm: l.Algorithm.Name, Requests: uint64(other.Requests), Window: l.Window, Overdraw: other.Overdraw}
			if other, err := NewLimit(spec); err == nil {
				return other
			}
		}
	}
	return l
}

// compareStates compares what the last call left in Redis with what its replay
// did to the states.
func (s *scripted) compareStates(t *testing.T, now int64, asks []Ask) {
	t.Helper()
	ctx := context.Background()
	stored := make([]*redis.StringCmd, len(s.call.keys))
	if _, err := s.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, key := range s.call.keys {
			stored[i] = p.Get(ctx, string(key))
		}
		return nil
	}); err != nil && !errors.Is(err, redis.Nil) && !strings.HasPrefix(err.Error(), "WRONGTYPE") {
		t.Fatal(err)
	}
	for i, a := range asks {
		key := s.call.places[i].key
		if a.Limit.Algorithm == SlidingWindowLog {
			continue
		}
		after := s.call.states[key]
		raw, err := stored[key].Bytes()
		switch {
		case errors.Is(err, redis.Nil):
			if expiry := a.Limit.Expiry(&after); expiry > now {
				t.Fatalf("%v: nothing is stored, want %+v, which expires %v from now", a.Limit, after, micros(expiry-now))
			}
		case err != nil:
			t.Fatal(err)
		case decodeState(raw).At != after.At, decodeState(raw).Used != after.Used, decodeState(raw).Aux != after.Aux:
			t.Fatalf("%v: %+v is stored, want %+v", a.Limit, decodeState(raw), after)
		}
	}
}

// randomAsks returns up to 12 requests of up to 3 asks, and some that are alike.
func randomAsks(r *rand.Rand, history uint64, keys []*Limit) []Ask {
	var asks []Ask
	counting := Counting(r.IntN(2))
	if counting == Reference && history%2 == 1 {
		counting = OnlyOver
	}
	for group := range 1 + r.IntN(12) {
		withheld := r.IntN(8) == 0
		for range 1 + r.IntN(3) {
			i := r.IntN(len(keys))
			a := Ask{
				Key: fmt.Appendf(nil, "%d/%d/%d", history, i, counting), Limit: keys[i], Hits: randomHits(r, keys[i]),
				Counting: counting, Group: int32(group), Shadow: r.IntN(6) == 0, Quota: r.IntN(5) == 0,
				Withheld: withheld,
			}
			switch r.IntN(12) {
			case 0:
				a.Mode = GiveBack
			case 1:
				a.Mode = Forced
			case 2:
				a.Hits = 1 << 62
			}
			asks = append(asks, a)
		}
		for range r.IntN(3) * r.IntN(4) {
			again := asks[r.IntN(len(asks))]
			again.Group = int32(100 + len(asks))
			asks = append(asks, again)
		}
	}
	return asks
}
