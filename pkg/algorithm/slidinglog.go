package algorithm

import (
	_ "embed"
	"fmt"
	"slices"
	"sort"
)

//go:embed slidinglog.lua
var slidingLogLua string

// SlidingWindowLog keeps the instant of every hit and counts those of the last
// window. It is exact: never more than requests in any window's length.
//
// Hits fit if the hit that would have to leave for them has left: the newest
// but requests − hits. The log keeps capacity + 1 instants at most; what is
// older cannot change a decision.
//
// Cost: memory for each hit, hence [MaxLogRequests].
var SlidingWindowLog = &Algorithm{
	Name:          "sliding_window_log",
	Lua:           slidingLogLua,
	chargesDenied: true,
	fit:           fitSlidingLog,
	repair:        repairSlidingLog,
	decide:        decideSlidingLog,
	expiry:        expirySlidingLog,
}

func fitSlidingLog(l *Limit) error {
	if l.Requests > MaxLogRequests {
		return &SpecError{"requests_per_unit", fmt.Sprintf("%d is too large for sliding_window_log, which keeps every hit, at most %d", l.Requests, MaxLogRequests)}
	}
	l.tick, l.window, l.maxUsed = 1, l.windowµ, l.Requests+1
	return nil
}

func repairSlidingLog(l *Limit, s *State, now int64) bool {
	if len(s.Log) == 0 || s.Log[len(s.Log)-1]-now <= l.windowµ {
		return false
	}
	s.Log = slices.Clone(s.Log)
	for i := len(s.Log) - 1; i >= 0 && s.Log[i] > now; i-- {
		s.Log[i] = now
	}
	return true
}

func decideSlidingLog(l *Limit, s *State, now, hits int64, how charge) Decision {
	at := max(now, newest(s))
	cutoff := at - l.windowµ
	live := int64(len(s.Log) - sort.Search(len(s.Log), func(i int) bool { return s.Log[i] > cutoff }))
	before := live
	fits := hits <= l.Requests && live <= l.Requests-hits
	switch {
	case hits == 0:
	case how == giveBack:
		kept := live - min(hits, live)
		if kept != live {
			s.Log = slices.Clone(s.Log[int64(len(s.Log))-live:][:kept])
		}
		live = kept
	case how == spend || fits:
		pushed := min(hits, l.maxUsed)
		keep := min(live, l.maxUsed-pushed)
		s.Log = s.Log[int64(len(s.Log))-keep:]
		for range pushed {
			s.Log = append(s.Log, at)
		}
		live = keep + pushed
	}
	d := l.decision(fits || how == giveBack, hits, before, live)
	if d.Outcome == Denied && !d.Never {
		// The hit that has to leave is the newest but requests − hits.
		leaves := s.Log[int64(len(s.Log))-1-(l.Requests-hits)]
		d.RetryAfter = micros(leaves + l.windowµ - now)
	}
	d.Reset = untilReset(expirySlidingLog(l, s), now)
	return d
}

// newest returns the instant of the last hit, or 0 if there was none.
func newest(s *State) int64 {
	if len(s.Log) == 0 {
		return 0
	}
	return s.Log[len(s.Log)-1]
}

func expirySlidingLog(l *Limit, s *State) int64 {
	if len(s.Log) == 0 {
		return 0
	}
	return newest(s) + l.windowµ
}
