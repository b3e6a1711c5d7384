package backend

import (
	"testing"
	"testing/synctest"

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
		wantMetric(t, reg, "ratelimitd_redis_undone_total", 2)
		wantMetric(t, reg, "ratelimitd_redis_undo_failed_total", 0)
		store.failFor(func(a *algorithm.Ask) error {
			if a.Mode == algorithm.GiveBack {
				return ErrTimeout
			}
			return away(a)
		})
		decideAll(p, localAsk("there", wide, 1), localAsk("away", narrow, 1))
		synctest.Wait()
		wantMetric(t, reg, "ratelimitd_redis_undone_total", 2)
		wantMetric(t, reg, "ratelimitd_redis_undo_failed_total", 1)
	})
}
