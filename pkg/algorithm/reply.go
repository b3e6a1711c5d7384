package algorithm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// ErrCorrupt is the reason of decisions on a request one of whose keys holds
// something that no store of this service wrote.
var ErrCorrupt = errors.New("the stored state of a counter is corrupt")

// ClockError is the reason of decisions on a request with a calendar limit
// whose window does not hold the store's clock. Nothing was charged; asking
// again with this clock decides it.
type ClockError struct {
	Now int64 // µs since the epoch, by the store's clock
}

func (e *ClockError) Error() string {
	return fmt.Sprintf("the store's clock (%s) lies outside the calendar window", time.UnixMicro(e.Now).UTC().Format(time.RFC3339Nano))
}

// A reply is the server's clock, the state of each key as it is stored and was
// before the call, and what each ask for a log is told.
const (
	replyHead = 8
	stateSize = 3*7 + 5
	toldSize  = 1 + 4*8
)

// The codes of what an ask for a log is told, as the script writes them.
const (
	codeUndecided = 0
	codeFits      = 1
	codeFitsNot   = 2
	codeUncharged = 4 // added when the request does not pass
	codeClock     = 8
)

// hugeState is what no number of a state is larger than.
const hugeState = 2 * maxExact

// Decode reads the script's reply into out, in the order of the asks: it decides
// once more what the script has decided, on the states that were there. A
// request that could not be decided has decisions with Err set. The error is
// about the reply as a whole, which then says nothing about what was charged.
func (c *Call) Decode(reply []byte, out []Decision) error {
	if want := replyHead + stateSize*len(c.keys) + toldSize*c.logs; len(reply) != want {
		return fmt.Errorf("the script's reply has %d bytes, want %d", len(reply), want)
	}
	now, rest := number(reply), reply[replyHead:]
	if now < 0 || now > maxExact {
		return fmt.Errorf("the script's reply has no clock, but %d", now)
	}
	c.states = c.states[:0]
	for range c.keys {
		c.states = append(c.states, decodeState(rest))
		rest = rest[stateSize:]
	}
	for from := 0; from < len(c.asks); {
		to := c.groupEnd(from)
		rest = c.replay(now, from, to, out[from:to], rest)
		from = to
	}
	return nil
}

func decodeState(b []byte) State {
	const seven = 1<<(7*8) - 1
	return State{
		At:   int64(binary.LittleEndian.Uint64(b) & seven),
		Used: int64(binary.LittleEndian.Uint64(b[7:]) & seven),
		Aux:  int64(binary.LittleEndian.Uint64(b[14:]) & seven),
	}
}

// replay decides a request as the script did. Its asks for logs are told in the
// reply, of which the rest is returned.
func (c *Call) replay(now int64, from, to int, out []Decision, told []byte) (rest []byte) {
	asks, states := c.asks[from:to], c.group[:0]
	var why error
	logs, passed := 0, true
	for i := range asks {
		p := c.places[from+i]
		if asks[i].Limit.Algorithm != SlidingWindowLog {
			states = append(states, &c.states[p.key])
			if why == nil {
				why = c.limits[p.limit].unfit(states[i], now)
			}
			continue
		}
		states = append(states, nil)
		switch code := told[0]; {
		case code == codeUndecided || !plausible(told):
			why = ErrCorrupt
		case code == codeClock:
			why = &ClockError{now}
		default:
			passed = code&codeUncharged == 0
			out[i] = asks[i].told(told, now)
		}
		logs, told = logs+1, told[toldSize:]
	}
	c.group = states
	switch {
	case why != nil:
		for i := range out {
			out[i] = Decision{Err: why}
		}
	case logs == 0:
		Decide(now, asks, states, out)
	default:
		saved := make([]State, len(asks))
		judge(now, asks, states, out, saved)
		if !passed {
			settle(now, asks, states, out, saved)
		}
	}
	return told
}

// plausible reports whether numbers that an ask for a log is told can be right.
func plausible(told []byte) bool {
	for at := 1; at < toldSize; at += 8 {
		if n := number(told[at:]); n < 0 || n > hugeState {
			return false
		}
	}
	return true
}

// unfit says why an ask cannot be decided, as the script does.
func (l *calledLimit) unfit(s *State, now int64) error {
	switch {
	case s.At > hugeState || s.Used > hugeState || s.Aux > hugeState,
		l.Algorithm.bucket && s.Used > 0 && s.Aux < 1:
		return ErrCorrupt
	case l.Calendar != nil && (now < l.begin || now >= l.end):
		return &ClockError{now}
	default:
		return nil
	}
}

// told is the decision on an ask for a log.
func (a *Ask) told(b []byte, now int64) Decision {
	fits, before, after, again, expiry := b[0]&codeFits != 0, number(b[1:]), number(b[9:]), number(b[17:]), number(b[25:])
	d := a.Limit.decision(fits || a.Mode == GiveBack, a.hits(), before, after)
	if d.Outcome == Denied && !d.Never {
		d.RetryAfter = micros(max(0, again-now))
	}
	d.Reset = untilReset(expiry, now)
	return a.forced(d)
}
