package backend

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A priority is shed from its threshold on, until there is a quarter less.
func TestShedAsTheStrainSays(t *testing.T) {
	var s strain
	for i, row := range []struct {
		now, more int64
		want      int32
	}{
		{0, 0, 0}, {499, 0, 0}, {500, 0, 1}, {376, 0, 1}, {499, 0, 1}, {374, 0, 0}, {499, 0, 0},
		{750, 0, 2}, {600, 0, 2}, {561, 0, 1}, {749, 0, 1}, {400, 0, 1}, {0, 0, 0},
		{1000, 0, 3}, {750, 0, 3}, {749, 0, 2}, {999, 0, 2}, {5000, 0, 3}, {10, 0, 0},
		{300, 199, 0}, {300, 200, 1}, {300, 75, 1}, {380, 0, 1}, {300, 74, 0},
	} {
		s.set(row.now)
		if got := s.shed(row.more); got != row.want {
			t.Errorf("row %d: at %d+%d %d priorities are shed, want %d", i, row.now, row.more, got, row.want)
		}
	}
}

func TestThousandths(t *testing.T) {
	for _, row := range []struct {
		part, whole time.Duration
		want        int64
	}{
		{0, 0, 0}, {-1, 0, 0}, {-5, 10, 0}, {1, 0, 1_000_000}, {1, -1, 1_000_000}, {5, 10, 500}, {15, 10, 1500},
		{time.Hour, time.Millisecond, 1_000_000}, {1<<63 - 1, 1, 1_000_000}, {1, 1 << 62, 0},
	} {
		if got := thousandths(row.part, row.whole); got != row.want {
			t.Errorf("%d of %d: %d, want %d", row.part, row.whole, got, row.want)
		}
	}
}

// strainedLane is a lane whose batches take a while, with a budget of 10 ms.
func strainedLane(takes time.Duration) (*laneLog, *atomic.Int64) {
	l, total := newLaneLog(takes), new(atomic.Int64)
	l.budget, l.total = 10*time.Millisecond, total
	return l, total
}

// The strain of a lane is what one more ask would have to wait, as a part of the
// budget that the way leaves.
func TestStrainOfALane(t *testing.T) {
	const ms = time.Millisecond
	for _, row := range []struct {
		way, took time.Duration
		running   int
		asks      int
		want      int64
	}{
		{0, 2 * ms, 0, 0, 0},              // idle
		{0, ms / 2, 1, 0, 0},              // nothing takes long
		{0, 2 * ms, 1, 0, 200},            // as long as a batch takes
		{2 * ms, 2 * ms, 1, 0, 0},         // the way itself is no strain
		{2 * ms, 4 * ms, 1, 0, 250},       // 2 of the 8 ms that are left
		{0, 2 * ms, 4, 0, 250},            // it must wait until one of four is back
		{0, 2 * ms, 1, maxBatch, 600},     // and for a batch that waits already
		{0, 2 * ms, 4, 3 * maxBatch, 400}, // four at a time
		{0, 2 * ms, 1, 4 * maxBatch, 1200},
		{20 * ms, 20 * ms, 1, 0, 0},
		{20 * ms, 21 * ms, 1, 0, 1_000_000}, // never in time
	} {
		l, total := strainedLane(0)
		l.way, l.took, l.running, l.asks = row.way, row.took, row.running, row.asks
		l.lane.mu.Lock()
		l.unlock()
		if got := l.strain.now.Load(); got != row.want || total.Load() != row.want {
			t.Errorf("%+v: strain %d, in all %d", row, got, total.Load())
		}
	}
}

// It grows with the queue and with the time that batches take, and is gone when
// nobody asks.
func TestStrainComesAndGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, total := strainedLane(4 * time.Millisecond)
		most := int64(0)
		var all sync.WaitGroup
		for i := range 40 * maxBatch {
			all.Go(func() {
				time.Sleep(time.Duration(i) * 5 * time.Microsecond) // 200 in a millisecond; the lane does 4·512 in four
				_ = l.ask(context.Background(), 1)
			})
		}
		for range 100 {
			time.Sleep(time.Millisecond)
			most = max(most, total.Load())
		}
		all.Wait()
		if most < 300 || most > 1000 {
			t.Errorf("a strain of %d at most", most)
		}
		if now := total.Load(); now != 0 || l.strain.now.Load() != 0 {
			t.Errorf("a strain of %d in the end", now)
		}
	})
}

// The lag is that of a processor which is short for long, not that of a pause.
func TestLag(t *testing.T) {
	const ms = time.Millisecond
	var l lag
	row := func(late time.Duration, times int) string {
		text := ""
		for range times {
			text += fmt.Sprint(l.add(late), " ")
		}
		return text
	}
	for _, step := range []struct {
		late  time.Duration
		times int
		want  string
	}{
		{0, 2, "0s 0s "}, {500 * time.Microsecond, 1, "0s "}, {80 * ms, 2, "0s 0s "}, {0, 1, "0s "},
		{11 * ms, 10, "0s 0s 0s 0s 0s 0s 0s 0s 0s 10ms "}, {21 * ms, 2, "10ms 10ms "}, {6 * ms, 1, "5ms "}, {ms, 1, "0s "},
	} {
		if got := row(step.late, step.times); got != step.want {
			t.Errorf("%d times %v: %s, want %s", step.times, step.late, got, step.want)
		}
	}
}

func TestWatchLag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		told := 0
		var watching sync.WaitGroup
		watching.Go(func() {
			watchLag(ctx, func(late time.Duration) {
				told++
				if late != 0 {
					t.Errorf("%v late", late)
				}
			})
		})
		time.Sleep(time.Second + lagEvery/2)
		cancel()
		watching.Wait()
		if want := int(time.Second / lagEvery); told != want {
			t.Errorf("told %d times, want %d", told, want)
		}
	})
}
