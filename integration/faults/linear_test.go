package faults

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/ratelimitd/ratelimitd/internal/redistest"
	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// asked is what an operation of a history asks of a key.
type asked struct {
	limit    *algorithm.Limit
	hits     int64
	giveBack bool
}

// answered is what it was told.
type answered struct {
	told      told
	remaining int64
}

// held is the state of a key, in a form that can be compared.
type held struct {
	at, used, aux int64
	log           int // the hits of a log, all of them at the same instant
}

// sequential is what the histories of one key must look like: the algorithm itself, its asks one after another. Its clock stands
// still, since within the window of the limits here nothing comes back. An operation whose answer was lost may have been charged
// or not.
func sequential(at int64) porcupine.Model {
	model := &porcupine.NondeterministicModel{
		Init: func() []any { return []any{held{}} },
		Step: func(state, input, output any) []any {
			before, in, out := state.(held), input.(asked), output.(answered)
			after, told := in.apply(before, at)
			switch {
			case out.told == failed:
				return []any{before, after}
			case out != told:
				return nil
			default:
				return []any{after}
			}
		},
	}
	return model.ToModel()
}

// apply decides as the algorithm does.
func (a asked) apply(h held, at int64) (held, answered) {
	s := algorithm.State{At: h.at, Used: h.used, Aux: h.aux}
	for range h.log {
		s.Log = append(s.Log, at)
	}
	ask := algorithm.Ask{Limit: a.limit, Hits: a.hits}
	if a.giveBack {
		ask.Mode = algorithm.GiveBack
	}
	out := make([]algorithm.Decision, 1)
	algorithm.Decide(at, []algorithm.Ask{ask}, []*algorithm.State{&s}, out)
	told := answered{admitted, out[0].Remaining}
	if out[0].Outcome == algorithm.Denied {
		told = answered{refused, 0} // for what was asked nothing is left, and so callers are told
	}
	return held{s.At, s.Used, s.Aux, len(s.Log)}, told
}

// recorder keeps the operations on one key.
type recorder struct {
	key   string
	limit *algorithm.Limit

	mu         sync.Mutex
	operations []porcupine.Operation // guarded by mu
}

// uncharged stands in an error that says for sure that nothing was charged.
const uncharged = "the store is not available"

// ask runs one operation of a client and records it, unless it surely did not happen.
func (r *recorder) ask(client int, server *replica, in asked) (recorded bool) {
	asking := request(r.key)
	asking.Descriptors[0].HitsAddend, asking.Descriptors[0].IsNegativeHits = wrapperspb.UInt64(uint64(in.hits)), in.giveBack
	ctx, cancel := context.WithTimeout(context.Background(), give)
	defer cancel()
	operation := porcupine.Operation{ClientId: client, Input: in, Call: time.Now().UnixNano()}
	reply, err := server.asks.ShouldRateLimit(ctx, asking)
	operation.Return = time.Now().UnixNano()
	var out answered
	switch {
	case err != nil && strings.Contains(err.Error(), uncharged):
		return false // it did not happen
	case err != nil:
		operation.Return = int64(never) // it may be charged at any time
	default:
		out = answered{admitted, int64(reply.GetStatuses()[0].GetLimitRemaining())}
		if reply.GetOverallCode() == ratelimitv3.RateLimitResponse_OVER_LIMIT {
			out.told = refused
		}
	}
	operation.Output = out
	r.mu.Lock()
	defer r.mu.Unlock()
	r.operations = append(r.operations, operation)
	return true
}

// record lets clients of all replicas ask for a key at the same time, by a seed, while trouble is made.
func record(servers []*replica, key string, limit *algorithm.Limit, giveBack bool, trouble func(*recorder)) *recorder {
	const clients, operations = 6, 25
	r := &recorder{key: key, limit: limit}
	var all sync.WaitGroup
	for client := range clients {
		all.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(client)))
			for range operations {
				in := asked{limit: limit, hits: int64(random.IntN(4))}
				in.giveBack = giveBack && in.hits > 0 && random.IntN(3) == 0
				for !r.ask(client, servers[(client+random.IntN(2))%len(servers)], in) {
					time.Sleep(time.Millisecond) // as a client waits before it asks again
				}
			}
		})
	}
	trouble(r)
	all.Wait()
	return r
}

// decisive is how long the search may take.
const decisive = time.Minute

func (r *recorder) check() porcupine.CheckResult {
	return porcupine.CheckOperationsTimeout(sequential(int64(now())), r.operations, decisive)
}

// lost returns how many answers were.
func (r *recorder) lost() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, o := range r.operations {
		if o.Output.(answered).told == failed {
			n++
		}
	}
	return n
}

// recorded are the limits of histories, which use them up more than once.
var recorded = []kind{{"quiet", 25, long}, {"given-back", 25, long}, {"lost", 25, long}}

func nothing(*recorder) {}

// What three replicas tell of a key is what one would tell that is asked one thing at a time: for each algorithm, while all is
// well, with hits given back, and while Redis stands still.
func TestHistoriesAreLinearizable(t *testing.T) {
	redis := redistest.Start(t, redistest.Options{})
	rules, dir := ruleBook(t, recorded)
	fleet := func(settings ...string) []*replica {
		return startFleet(t, ratelimitdPath, dir, append(onRedis(redis.URL()), settings...))
	}
	remembering, asking := fleet(), fleet("KNOWN_OVER_KEYS=0") // hits given back elsewhere are noticed late by the first
	standStill := func(r *recorder) {
		redis.Pause()
		defer redis.Resume()
		waitFor(t, "an answer to be lost", func() bool { return r.lost() > 0 })
	}
	tests := []struct {
		kind     string
		servers  []*replica
		giveBack bool
		trouble  func(*recorder)
	}{
		{"quiet", remembering, false, nothing},
		{"given-back", asking, true, nothing},
		{"lost", asking, true, standStill},
	}
	for _, test := range tests {
		for _, a := range algorithm.All {
			t.Run(test.kind+"/"+a.Name, func(t *testing.T) {
				key := a.Name + "/error/" + test.kind
				r := record(test.servers, key, rules[key].limit, test.giveBack, test.trouble)
				if got := r.check(); got != porcupine.Ok {
					t.Errorf("the history of %d operations is %v", len(r.operations), got)
				}
				r.spoil(t)
			})
		}
	}
}

// spoil changes one answer of the history to one that cannot be, and fails the test when that is not found.
func (r *recorder) spoil(t *testing.T) {
	t.Helper()
	i := slices.IndexFunc(r.operations, func(o porcupine.Operation) bool { return o.Output.(answered).told == admitted })
	if i < 0 {
		t.Fatal("nothing was admitted")
	}
	out := r.operations[i].Output.(answered)
	out.remaining = r.limit.Capacity + 1
	r.operations[i].Output = out
	if got := r.check(); got != porcupine.Illegal {
		t.Errorf("more was left than the limit holds, and the history is %v", got)
	}
}

// Replicas that each count by themselves are found out.
func TestHistoriesOfSeparateCountsAreNot(t *testing.T) {
	rules, dir := ruleBook(t, recorded)
	servers := startFleet(t, ratelimitdPath, dir, []string{"STORE=memory"})
	for _, a := range algorithm.All {
		key := a.Name + "/error/quiet"
		if got := record(servers, key, rules[key].limit, false, nothing).check(); got != porcupine.Illegal {
			t.Errorf("%s: the history is %v", a.Name, got)
		}
	}
}
