package service

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// Each request must be decided within the smaller of the budget and its
// caller's time less a margin, from its arrival on.
func TestPatience(t *testing.T) {
	const ms = time.Millisecond
	arrived := time.Unix(1_000_000, 0)
	for i, row := range []struct {
		budget, caller, later, want time.Duration // 0: none
	}{
		{15 * ms, 0, 0, 15 * ms},
		{15 * ms, 20 * ms, 0, 15 * ms},
		{15 * ms, 20 * ms, 9 * ms, 15 * ms}, // however long it has waited
		{15 * ms, 16 * ms, 0, 13 * ms},      // 3 ms for the answer's way
		{15 * ms, 10 * ms, 0, 8 * ms},       // a fifth of a short time
		{15 * ms, time.Hour, 0, 15 * ms},
		{time.Hour, 20 * ms, 0, 17 * ms},
		{0, 20 * ms, 0, 20 * ms}, // a store that never waits
		{0, 0, 0, 0},
	} {
		e := Exchange{Arrived: arrived}
		if row.caller > 0 {
			e.Deadline = arrived.Add(row.caller)
		}
		options := Options{Budget: row.budget}
		got := options.patience(&e, arrived.Add(row.later)).until
		if row.want == 0 && !got.IsZero() || row.want > 0 && !got.Equal(arrived.Add(row.want)) {
			t.Errorf("row %d: until %v after the arrival, want %v", i, got.Sub(arrived), row.want)
		}
	}
	options := Options{Budget: 15 * ms}
	if got := options.patience(&Exchange{}, arrived).until; !got.Equal(arrived.Add(15 * ms)) {
		t.Errorf("one that arrives now: until %v", got)
	}
}

// What nobody waits for is not asked, and its neighbours are.
func TestAbandonedRequestsAreNotAsked(t *testing.T) {
	s := start(t, DefaultOptions(), sitePolicy)
	asked := 0
	s.store.decided = func(asks []algorithm.Ask, _ []algorithm.Decision) { asked += len(asks) }
	var gone, waits atomic.Bool
	gone.Store(true)
	batch := siteRequests(4)
	batch[0].Gone = &gone
	batch[1].Deadline = time.Now()
	batch[2].Gone, batch[2].Deadline = &waits, time.Now().Add(time.Hour)
	s.Answer(t.Context(), batch)
	for i, want := range []*Error{left, late, nil, nil} {
		if batch[i].Err != want {
			t.Errorf("request %d: %v, want %v", i, batch[i].Err, want)
		}
	}
	if asked != 2 {
		t.Errorf("%d asks, want 2", asked)
	}
}
