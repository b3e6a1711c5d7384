package backend

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// laneLog is a lane whose batches take a while, and tells which there were: the
// instant at which each left, and the first hit of each errand in it.
type laneLog struct {
	lane
	began time.Time
	takes time.Duration
	mu    sync.Mutex
	text  string
}

func newLaneLog(takes time.Duration) *laneLog {
	l := &laneLog{lane: lane{most: maxRunning, large: maxBatch}, began: time.Now(), takes: takes}
	l.run = func(batch []*errand) {
		l.note(batch)
		time.Sleep(l.takes)
		for _, e := range batch {
			for i := range e.out {
				e.out[i] = algorithm.Decision{Outcome: algorithm.Allowed, After: e.asks[i].Hits}
			}
		}
	}
	return l
}

func (l *laneLog) note(batch []*errand) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text += fmt.Sprintf("%v:", time.Since(l.began))
	for _, e := range batch {
		l.text += fmt.Sprintf(" %d", e.asks[0].Hits)
	}
	l.text += "; "
}

// ask asks for hits as Decide does, and returns what came of it and when.
func (l *laneLog) ask(ctx context.Context, hits int64) string {
	e := l.newErrand(ctx)
	e.add(&algorithm.Ask{Key: []byte("k"), Hits: hits}, 0)
	e.seal()
	var out [1]algorithm.Decision
	if err := l.add(e); err == nil {
		e.wait(out[:])
	} else {
		e.refuse(out[:], err)
		e.free()
	}
	if errors.Is(out[0].Err, ErrTimeout) {
		return fmt.Sprintf("%d timed out after %v", hits, time.Since(l.began))
	}
	return fmt.Sprintf("%d %v after %v", out[0].After, out[0].Outcome, time.Since(l.began))
}

func TestLane(t *testing.T) {
	const us, ms = time.Microsecond, time.Millisecond
	type asked struct{ at, within time.Duration } // within 0: no deadline
	for _, row := range []struct {
		name    string
		takes   time.Duration
		asks    []asked
		batches string
		answers []string
	}{{
		name: "the first waits for nobody, the others for it", takes: 300 * us,
		asks:    []asked{{0, 0}, {10 * us, 0}, {20 * us, 0}, {310 * us, 0}},
		batches: "0s: 0; 300µs: 1 2; 600µs: 3; ",
		answers: []string{"0 allowed after 300µs", "1 allowed after 600µs", "2 allowed after 600µs", "3 allowed after 900µs"},
	}, {
		name: "an idle lane makes nobody wait", takes: 300 * us,
		asks:    []asked{{0, 0}, {400 * us, 0}},
		batches: "0s: 0; 400µs: 1; ",
		answers: []string{"0 allowed after 300µs", "1 allowed after 700µs"},
	}, {
		name: "others leave besides one that is held up", takes: 10 * ms,
		asks:    []asked{{0, 0}, {100 * us, 0}, {600 * us, 0}, {700 * us, 0}, {1200 * us, 0}, {1800 * us, 0}, {2400 * us, 0}},
		batches: "0s: 0; 600µs: 1 2; 1.2ms: 3 4; 1.8ms: 5; 10ms: 6; ",
		answers: []string{"0 allowed after 10ms", "1 allowed after 10.6ms", "2 allowed after 10.6ms", "3 allowed after 11.2ms",
			"4 allowed after 11.2ms", "5 allowed after 11.8ms", "6 allowed after 20ms"},
	}, {
		name: "who has left before the batch is not in it", takes: 400 * us,
		asks:    []asked{{0, 0}, {10 * us, 100 * us}, {20 * us, 0}},
		batches: "0s: 0; 400µs: 2; ",
		answers: []string{"0 allowed after 400µs", "1 timed out after 110µs", "2 allowed after 800µs"},
	}, {
		name: "who leaves during the batch leaves alone", takes: 400 * us,
		asks:    []asked{{0, 0}, {10 * us, 500 * us}, {20 * us, 0}},
		batches: "0s: 0; 400µs: 1 2; ",
		answers: []string{"0 allowed after 400µs", "1 timed out after 510µs", "2 allowed after 800µs"},
	}, {
		name: "all have left", takes: 400 * us,
		asks:    []asked{{0, 0}, {10 * us, 100 * us}, {20 * us, 100 * us}, {1 * ms, 0}},
		batches: "0s: 0; 1ms: 3; ",
		answers: []string{"0 allowed after 400µs", "1 timed out after 110µs", "2 timed out after 120µs", "3 allowed after 1.4ms"},
	}} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLaneLog(row.takes)
				answers := make([]string, len(row.asks))
				var wg sync.WaitGroup
				for i, a := range row.asks {
					wg.Go(func() {
						time.Sleep(a.at)
						ctx := context.Background()
						if a.within > 0 {
							var cancel func()
							ctx, cancel = context.WithTimeout(ctx, a.within)
							defer cancel()
						}
						answers[i] = l.ask(ctx, int64(i))
					})
				}
				wg.Wait()
				synctest.Wait()
				if l.text != row.batches {
					t.Errorf("batches\n got %s\nwant %s", l.text, row.batches)
				}
				for i := range answers {
					if answers[i] != row.answers[i] {
						t.Errorf("ask %d: %s, want %s", i, answers[i], row.answers[i])
					}
				}
				if l.running != 0 || l.asks != 0 || len(l.waiting) != 0 {
					t.Errorf("in the end %d running, %d waiting with %d asks", l.running, len(l.waiting), l.asks)
				}
			})
		})
	}
}

// Where the way is long nobody waits for others, but for a bounded number under
// way; where it is short again, they do.
func TestLaneLearnsTheWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLaneLog(0)
		at := func(takes time.Duration) string {
			l.takes = takes
			for range 2 * tripsToKnow {
				l.ask(context.Background(), 0)
			}
			l.began, l.text = time.Now(), ""
			var wg sync.WaitGroup
			for i := range 6 {
				wg.Go(func() {
					time.Sleep(time.Duration(i) * 10 * time.Microsecond)
					l.ask(context.Background(), int64(i))
				})
			}
			wg.Wait()
			return l.text
		}
		for _, row := range []struct {
			way  time.Duration
			want string
		}{
			{2 * time.Millisecond, "0s: 0; 10µs: 1; 20µs: 2; 30µs: 3; 2ms: 4 5; "},
			{100 * time.Microsecond, "0s: 0; 100µs: 1 2 3 4 5; "},
		} {
			if got := at(row.way); got != row.want {
				t.Errorf("way %v:\n got %s\nwant %s", row.way, got, row.want)
			}
		}
	})
}

// The queue is bounded, by asks; a batch too.
func TestLaneIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLaneLog(time.Millisecond)
		sizes := []int{}
		l.run = func(batch []*errand) {
			asks := 0
			for _, e := range batch {
				asks += len(e.asks)
			}
			sizes = append(sizes, asks)
			time.Sleep(patience / 2)
		}
		var wg sync.WaitGroup
		refused := 0
		add := func(asks int) {
			e := l.newErrand(context.Background())
			for range asks {
				e.add(&algorithm.Ask{}, 0)
			}
			e.seal()
			if l.add(e) != nil {
				refused++
				e.free()
				return
			}
			wg.Go(func() { e.wait(make([]algorithm.Decision, asks)) })
		}
		add(1)
		synctest.Wait()
		for range maxWaiting / 300 {
			add(300)
		}
		add(300)
		add(300)
		wg.Wait()
		for _, n := range sizes[1:] {
			if n != 300 {
				t.Fatalf("a batch of %d asks; two of 300 are more than %d", n, maxBatch)
			}
		}
		if len(sizes) != 1+maxWaiting/300 || refused != 2 {
			t.Errorf("%d batches, %d refused; want %d and 2", len(sizes), refused, 1+maxWaiting/300)
		}
		add(maxWaiting + 1) // what comes alone is never too much
		wg.Wait()
		if got := sizes[len(sizes)-1]; got != maxWaiting+1 {
			t.Errorf("the last batch has %d asks", got)
		}
	})
}
