package backend

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// What a part of the store has charged for a request that is then denied locally
// it gets back, and metrics tell; what it charged for one that passes stays.
func TestChargesOfLocalDenialsAreReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newSwitched(t)
		p, reg := withLocal(t, store, 1)
		wide, narrow := limitOf(t, "fixed_window", 10, aLongTime), limitOf(t, "fixed_window", 1, aLongTime)
		away := func(a *algorithm.Ask) error {
			if string(a.Key) == "away" || hashTag(string(a.Key)) == "away" {
				return ErrTimeout
			}
			return nil
		}
		store.failFor(away)
		for i, want := range []struct {
			local algorithm.Outcome
			used  int64 // of what the store decides
		}{{algorithm.Allowed, 1}, {algorithm.Denied, 1}, {algorithm.Denied, 1}} {
			shadow := localAsk("shadow", wide, 1)
			shadow.Shadow = true
			out := decideAll(p, localAsk("there", wide, 1), localAsk("away", narrow, 1), shadow)
			if out[1].Outcome != want.local || out[0].After != want.used || out[0].Remaining != 10-want.used {
				t.Errorf("request %d: %+v", i, out)
			}
			synctest.Wait()
			if got := store.used("there", wide); got != want.used {
				t.Errorf("request %d: the store stands at %d, want %d", i, got, want.used)
			}
			if got := store.used("shadow", wide); got != int64(i+1) {
				t.Errorf("request %d: the shadow limit stands at %d, want %d", i, got, i+1)
			}
		}
		wantMetric(t, reg, "ratelimitd_store_undone_total", 2)
		wantMetric(t, reg, "ratelimitd_store_undo_failed_total", 0)
		store.failFor(func(a *algorithm.Ask) error {
			if a.Mode == algorithm.GiveBack {
				return ErrTimeout
			}
			return away(a)
		})
		decideAll(p, localAsk("there", wide, 1), localAsk("away", narrow, 1))
		synctest.Wait()
		wantMetric(t, reg, "ratelimitd_store_undone_total", 2)
		wantMetric(t, reg, "ratelimitd_store_undo_failed_total", 1)
	})
}

// What will be free by the time that it could be given back is not: it would be
// taken off what others are charged in the next window.
func TestNothingIsReturnedToTheNextWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newSwitched(t)
		p, reg := withLocal(t, store, 1)
		perSecond, narrow := limitOf(t, "fixed_window", 10, time.Second), limitOf(t, "fixed_window", 1, aLongTime)
		store.failFor(func(a *algorithm.Ask) error {
			if string(a.Key) == "away" || hashTag(string(a.Key)) == "away" {
				time.Sleep(10 * time.Millisecond)
				return ErrTimeout
			}
			return nil
		})
		away := localAsk("away", narrow, 2) // denied
		for _, row := range []struct {
			at   time.Duration // in the window of the first
			used int64         // in the end
		}{{at: 100 * time.Millisecond, used: 0}, {at: 985 * time.Millisecond, used: 1}} {
			time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(row.at)))
			decideAll(p, localAsk("there", perSecond, 1), away)
			synctest.Wait()
			if got := store.used("there", perSecond); got != row.used {
				t.Errorf("at %v: %d used, want %d", row.at, got, row.used)
			}
		}
		wantMetric(t, reg, "ratelimitd_store_undone_total", 1)
	})
}
