package backend

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/ratelimitd/ratelimitd/internal/redistest"
	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// TestMergedDecidesAsOneAfterAnother plays random histories of what callers ask
// at the same time, merged into batches by a Redis store, and one after another
// in memory. Nothing refills meanwhile.
func TestMergedDecidesAsOneAfterAnother(t *testing.T) {
	for _, shape := range []string{"redis", "cluster"} {
		t.Run(shape, func(t *testing.T) {
			t.Parallel()
			r := openShape(t, shape).decider.(*Redis)
			awaitReady(t, r)
			memory := NewMemory(MemoryOptions{})
			defer memory.Close()
			asks := 0
			for seed := range uint64(60) {
				random := rand.New(rand.NewPCG(seed, 9))
				keys := randomKeys(t, random, fmt.Sprint(seed))
				for range 15 {
					asks += playMerged(t, r, memory, random, keys)
				}
			}
			t.Logf("%d asks", asks)
		})
	}
}

// keyed is a key and its limit.
type keyed struct {
	tag   string
	key   []byte
	limit *algorithm.Limit
}

// randomKeys returns keys with limits of any algorithm, in few hash slots.
func randomKeys(t *testing.T, random *rand.Rand, name string) []keyed {
	keys := make([]keyed, 10)
	for i := range keys {
		spec := algorithm.Spec{
			Algorithm: algorithm.All[random.IntN(len(algorithm.All))].Name, Requests: uint64(1 + random.IntN(30)),
			Window: aLongTime, Overdraw: random.IntN(5) == 0,
		}
		l, err := algorithm.NewLimit(spec)
		if err != nil {
			t.Fatal(err)
		}
		tag := string(rune('a' + random.IntN(3)))
		keys[i] = keyed{tag, key(t, tag, fmt.Sprint(name, "/", i)), l}
	}
	return keys
}

// playMerged plays one batch, of up to 12 callers with up to 4 requests each.
func playMerged(t *testing.T, r *Redis, memory *Memory, random *rand.Rand, keys []keyed) int {
	t.Helper()
	counting := algorithm.Counting(random.IntN(3))
	callers := make([][]algorithm.Ask, 1+random.IntN(12))
	var batch []*errand
	n := 0
	for c := range callers {
		group := int32(random.IntN(3)) // the numbers of different callers are often the same
		for range 1 + random.IntN(4) {
			callers[c] = append(callers[c], randomRequest(random, keys, group, counting)...)
			group++
		}
		e := r.lane("").newErrand(context.Background())
		for i := range callers[c] {
			e.add(&callers[c][i], callers[c][i].Group)
			if r.cluster != nil {
				e.slots = append(e.slots, slotOf(callers[c][i].Key))
			}
		}
		e.seal()
		batch = append(batch, e)
		n += len(callers[c])
	}
	r.runErrands(batch)
	for c, e := range batch {
		got, want := make([]algorithm.Decision, len(callers[c])), make([]algorithm.Decision, len(callers[c]))
		e.deliver(got)
		e.free()
		memory.Decide(context.Background(), callers[c], want)
		for i := range got {
			if !same(got[i], want[i]) {
				t.Fatalf("caller %d of %d, ask %d: %+v\n merged %+v\n single %+v", c, len(callers), i, callers[c][i], got[i], want[i])
			}
		}
	}
	return n
}

// randomRequest returns up to 3 asks whose keys share a hash slot.
func randomRequest(random *rand.Rand, keys []keyed, group int32, counting algorithm.Counting) []algorithm.Ask {
	var asks []algorithm.Ask
	tag := ""
	for range 1 + random.IntN(6) {
		k := keys[random.IntN(len(keys))]
		if tag != "" && k.tag != tag || len(asks) == 3 {
			continue
		}
		tag = k.tag
		a := algorithm.Ask{
			Key: fmt.Appendf(nil, "%s/%d", k.key, counting), Limit: k.limit, Hits: int64(random.IntN(4)), Group: group,
			Counting: counting, Shadow: random.IntN(6) == 0, Quota: random.IntN(5) == 0,
		}
		if random.IntN(8) == 0 {
			a.Mode = algorithm.Mode(random.IntN(3))
		}
		asks = append(asks, a)
	}
	return asks
}

// same compares decisions but for what moves on with time.
func same(a, b algorithm.Decision) bool {
	near := func(x, y time.Duration) bool { return (x - y).Abs() < time.Minute }
	times := near(a.RetryAfter, b.RetryAfter) && near(a.Reset, b.Reset) && near(a.Delay, b.Delay)
	a.RetryAfter, a.Reset, a.Delay = b.RetryAfter, b.Reset, b.Delay
	return times && a == b
}

// In a batch a bad key fails those who asked for it, and nobody else.
func TestMergedBadKeyFailsItsOwnCaller(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	r, _ := openRedis(t, s.URL(), nil)
	s.Do(t, "hset", "bad", "f", "v")
	l := limitOf(t, "fixed_window", 1000, aLongTime)
	const callers, calls = 24, 50
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			name := "good"
			if i%4 == 0 {
				name = "bad"
			}
			for range calls {
				if d := ask1(t, r, name, l, 1); errors.Is(d.Err, algorithm.ErrCorrupt) != (name == "bad") {
					t.Errorf("%s: %v %v", name, d.Outcome, d.Err)
				}
			}
		})
	}
	wg.Wait()
	if d := ask1(t, r, "good", l, 0); d.After != callers*calls*3/4 || d.Remaining != 100 {
		t.Errorf("good stands at %d, %d remain", d.After, d.Remaining)
	}
}

// One caller's end is not that of the others in its batch, and what is not sent
// in time is not counted.
func TestMergedCallersEndAlone(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	r, _ := openRedis(t, s.URL(), nil)
	awaitReady(t, r)
	l := limitOf(t, "fixed_window", 1_000_000, aLongTime)
	const callers = 60
	var wg sync.WaitGroup
	s.Pause()
	var mu sync.Mutex
	patient := 0
	for i := range callers {
		wg.Go(func() {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			hasty := i%2 == 0
			if hasty {
				time.AfterFunc(50*time.Millisecond, cancel)
			}
			var out [1]algorithm.Decision
			r.Decide(ctx, []algorithm.Ask{{Key: []byte("k"), Limit: l, Hits: 1}}, out[:])
			mu.Lock()
			defer mu.Unlock()
			switch {
			case out[0].Outcome == algorithm.Allowed:
				patient++
			case !hasty || !errors.Is(out[0].Err, ErrTimeout):
				t.Errorf("caller %d: %v %v", i, out[0].Outcome, out[0].Err)
			}
		})
	}
	time.Sleep(200 * time.Millisecond)
	s.Resume()
	wg.Wait()
	got := ask1(t, r, "k", l, 0).After
	if patient < callers/2-maxRunning || got < int64(patient) || got > callers {
		t.Errorf("%d were allowed, %d counted", patient, got)
	}
	t.Logf("%d of %d were allowed, %d counted", patient, callers, got)
}
