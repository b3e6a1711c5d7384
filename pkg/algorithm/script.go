package algorithm

import (
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
)

// What every function below begins with.
//
//go:embed prelude.lua
var preludeLua string

//go:embed decide.lua
var decideLua string

//go:embed script.lua
var scriptLua string

// Script is the Lua source that decides a [Call] in Redis. It needs Redis 5 or
// later, reads the server's clock once, reads all keys before it writes any,
// and never fails for what a key holds.
var Script = script()

// script puts the parts together. Those that not every call needs become
// functions that make them. They refer to nothing outside of them: to have a
// function take hold of a local costs more than a decision.
func script() string {
	var b strings.Builder
	maker := func(name, parameters, lua string) {
		fmt.Fprintf(&b, "local function make_%[1]s(%[2]s)\n%[3]s\n%[4]s\nreturn %[1]s\nend\n\n", name, parameters, preludeLua, lua)
	}
	for _, a := range All {
		maker(a.Name, "", a.Lua)
	}
	maker("decide_group", "now, limits, states, asks, out, log_count, decide_one", decideLua)
	b.WriteString(preludeLua)
	fmt.Fprintf(&b, "local makers = {make_%s}\nlocal SLIDING_WINDOW_LOG = %d\n", strings.Join(Names(), ", make_"), SlidingWindowLog.kind())
	b.WriteString(scriptLua)
	return b.String()
}

// ErrCorrupt is the reason of decisions on a request one of whose keys holds
// something that no store of this service wrote.
var ErrCorrupt = errors.New("the stored state of a counter is corrupt")

// ClockError is the reason of decisions on a request with a calendar limit
// whose window does not hold the store's clock. Nothing was charged; asking
// again with [Call.SetClock] decides it.
type ClockError struct {
	Now int64 // µs since the epoch, by the store's clock
}

func (e *ClockError) Error() string {
	return fmt.Sprintf("the store's clock (%s) lies outside the calendar window", time.UnixMicro(e.Now).UTC().Format(time.RFC3339Nano))
}

// Call is a batch of asks in the form that [Script] reads: one KEYS, one ARGV.
// The zero value is not ready: begin with Reset. A Call may be used again and
// again, by one goroutine at a time.
type Call struct {
	now   int64
	slack time.Duration
	clock int64

	limits  []*Limit
	logs    uint32 // how many limits are of a sliding window log
	indexOf map[*Limit]uint32
	keys    [][]byte
	keyOf   map[string]uint32
	asks    []byte   // encoded
	asked   []*Limit // of each ask
	group   int32
	args    []byte
}

// Reset empties the call. now is the instant to decide at, in microseconds
// since the epoch; 0 is the server's own clock, and then [Call.SetClock] says
// which windows calendar limits are expected to be in. A key expires slack
// after its state has come to equal one never seen.
func (c *Call) Reset(now int64, slack time.Duration) {
	if c.keyOf == nil {
		c.keyOf, c.indexOf = make(map[string]uint32), make(map[*Limit]uint32)
	}
	clear(c.keyOf)
	clear(c.indexOf)
	clear(c.keys)
	c.now, c.slack, c.clock = now, slack, now
	c.limits, c.keys, c.asks, c.asked, c.logs = c.limits[:0], c.keys[:0], c.asks[:0], c.asked[:0], 0
}

// SetClock sets the instant, in microseconds since the epoch, by which the
// windows of calendar limits are chosen: the caller's clock, or that of a
// [ClockError] to ask again. It holds until the next Reset.
func (c *Call) SetClock(now int64) { c.clock = now }

// The flags of an ask, as script.lua reads them. The lowest two bits are its
// charge.
const (
	flagAlone  = 4
	flagNoVeto = 8
	flagQuota  = 16
	flagForced = 32
	flagHeld   = 64  // the request does not pass
	flagJoined = 128 // belongs to the same request as the ask before it
)

// Add appends an ask. Its key must not change until the reply is decoded.
func (c *Call) Add(a *Ask) {
	flags := byte(a.how())
	set := func(flag byte, on bool) {
		if on {
			flags |= flag
		}
	}
	set(flagAlone, a.alone())
	set(flagNoVeto, !a.hasSay())
	set(flagQuota, a.Quota)
	set(flagForced, a.Mode == Forced)
	set(flagHeld, a.Withheld)
	set(flagJoined, len(c.asked) > 0 && a.Group == c.group)
	c.group = a.Group

	key, known := c.keyOf[string(a.Key)]
	if !known {
		c.keys = append(c.keys, a.Key)
		key = uint32(len(c.keys))
		c.keyOf[string(a.Key)] = key
	}
	limit, known := c.indexOf[a.Limit]
	if !known {
		c.limits = append(c.limits, a.Limit)
		limit = uint32(len(c.limits))
		c.indexOf[a.Limit] = limit
		if a.Limit.Algorithm == SlidingWindowLog {
			c.logs++
		}
	}
	c.asks = append(c.asks, flags)
	c.asks = binary.LittleEndian.AppendUint32(c.asks, key)
	c.asks = binary.LittleEndian.AppendUint32(c.asks, limit)
	c.asks = appendNumber(c.asks, a.hits())
	c.asked = append(c.asked, a.Limit)
}

// Len is the number of asks added.
func (c *Call) Len() int { return len(c.asked) }

// Keys are the script's KEYS: each distinct key once.
func (c *Call) Keys() [][]byte { return c.keys }

// Args is the script's ARGV[1]. It is valid until the next call of Args or
// Reset.
func (c *Call) Args() []byte {
	b := appendNumber(c.args[:0], c.now)
	b = appendNumber(b, int64(c.slack/time.Millisecond))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(c.limits)))
	b = binary.LittleEndian.AppendUint32(b, c.logs)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(c.asked)))
	for _, l := range c.limits {
		b = c.appendLimit(b, l)
	}
	b = append(b, c.asks...)
	c.args = b
	return b
}

// calendarKind marks a limit whose last two numbers are its window's bounds.
const calendarKind = 128

func (c *Call) appendLimit(b []byte, l *Limit) []byte {
	kind, scale, drip := l.Algorithm.kind(), l.scale, l.drip
	if l.Calendar != nil {
		kind |= calendarKind
		scale, drip = l.Calendar.Window(c.clock)
	}
	b = append(b, kind)
	for _, n := range [...]int64{l.Requests, l.Capacity, l.windowµ, l.window, l.tick, l.maxUsed, scale, drip} {
		b = appendNumber(b, n)
	}
	return b
}

// kind is the algorithm's number in scripts, from 1.
func (a *Algorithm) kind() byte {
	for i, other := range All {
		if a == other {
			return byte(i + 1)
		}
	}
	return 0
}

func appendNumber(b []byte, n int64) []byte {
	return binary.LittleEndian.AppendUint64(b, math.Float64bits(float64(n)))
}

func number(b []byte) int64 {
	return int64(math.Float64frombits(binary.LittleEndian.Uint64(b)))
}

// The size of a reply's head, the server's clock, and of each decision in it.
const (
	replyHead     = 8
	replyDecision = 1 + 5*8
)

// The codes of a decision, as script.lua writes them.
const (
	codeUndecided = 0
	codeAllowed   = 1
	codeDenied    = 2
	codeNever     = 4
	codeClock     = 8
)

// Decode reads the script's reply into out, in the order of Add. A request that
// could not be decided has decisions with Err set. The error is about the reply
// as a whole, which then says nothing about what was charged.
func (c *Call) Decode(reply []byte, out []Decision) error {
	if want := replyHead + replyDecision*len(c.asked); len(reply) != want {
		return fmt.Errorf("the script's reply has %d bytes, want %d", len(reply), want)
	}
	now := number(reply)
	for i, l := range c.asked {
		b := reply[replyHead+i*replyDecision:]
		out[i] = decodeDecision(b[0], b[1:replyDecision], l, now)
	}
	return nil
}

func decodeDecision(code byte, b []byte, l *Limit, now int64) Decision {
	d := Decision{
		Before: number(b), After: number(b[8:]), RetryAfter: micros(number(b[16:])),
		Reset: micros(number(b[24:])), Delay: micros(number(b[32:])),
	}
	d.Remaining = max(0, l.Capacity-d.After)
	switch code &^ codeNever {
	case codeAllowed:
		d.Outcome = Allowed
	case codeDenied:
		d.Outcome, d.Never = Denied, code&codeNever != 0
	case codeClock:
		return Decision{Err: &ClockError{Now: now}}
	default:
		return Decision{Err: ErrCorrupt}
	}
	return d
}
