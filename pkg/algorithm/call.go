package algorithm

import (
	"bytes"
	"encoding/binary"
	"math"
	"time"
)

// Call is a batch of asks in the form that [Script] reads: one KEYS, one ARGV.
// The zero value is a batch of none: begin with Reset. A Call may be used again
// and again, by one goroutine at a time.
type Call struct {
	now   int64
	slack time.Duration
	clock int64
	asks  []Ask

	limits  []calledLimit
	limitOf map[*Limit]uint32
	keys    [][]byte
	keyOf   map[string]uint32
	places  []place // of each ask
	entries []entry
	latest  []int32 // of each key, the entry that takes more asks; or -1
	logs    int     // how many asks are for logs
	args    []byte

	// What Decode needs.
	states []State // of each key
	group  []*State
}

// calledLimit is a limit, and the window of its calendar by the call's clock.
type calledLimit struct {
	*Limit
	begin, end int64
}

// place says where an ask's limit and key are in their lists.
type place struct{ limit, key uint32 }

// entry is a number of like asks.
type entry struct {
	flags uint16
	place
	hits  int64
	count uint32
}

// Reset makes the call one for asks, which must not change until the reply is
// decoded. now is the instant to decide at, in microseconds since the epoch; 0
// is the server's own clock, and then clock is that by which the windows of
// calendar limits are chosen: the caller's, or that of a [ClockError] to ask
// again. A key expires slack after its state has come to equal one never seen.
func (c *Call) Reset(asks []Ask, now, clock int64, slack time.Duration) {
	if c.keyOf == nil {
		c.keyOf, c.limitOf = make(map[string]uint32), make(map[*Limit]uint32)
	}
	clear(c.keyOf)
	clear(c.limitOf)
	clear(c.keys)
	clear(c.limits)
	c.asks, c.now, c.clock, c.slack = asks, now, clock, slack
	c.limits, c.keys, c.places, c.entries, c.latest, c.logs = c.limits[:0], c.keys[:0], c.places[:0], c.entries[:0], c.latest[:0], 0
	if now != 0 {
		c.clock = now
	}
	c.gather()
}

// gather makes entries of the asks. Those that come alone and are alike are one,
// unless another ask for their key stands between them: what else does is for
// other keys, so that nobody can tell in which order they were decided.
func (c *Call) gather() {
	for from := 0; from < len(c.asks); {
		to := c.groupEnd(from)
		for i := from; i < to; i++ {
			a := &c.asks[i]
			p := place{c.placeLimit(a.Limit), c.placeKey(a.Key)}
			c.places = append(c.places, p)
			if int(p.key) == len(c.latest) {
				c.latest = append(c.latest, -1)
			}
			e := entry{flags: a.flags(), place: p, hits: a.hits(), count: 1}
			if to-from == 1 && !a.Withheld && a.Limit.Algorithm != SlidingWindowLog {
				c.addAlone(e)
				continue
			}
			if i > from {
				e.flags |= flagJoined
			}
			c.latest[p.key] = -1
			c.entries = append(c.entries, e)
		}
		if to-from > 1 && c.isPlain(from, to) {
			c.entries[len(c.entries)-(to-from)].flags |= flagPlain
		}
		from = to
	}
}

// addAlone adds an ask that nothing else can veto.
func (c *Call) addAlone(e entry) {
	e.flags &= flagCharge
	latest := &c.latest[e.key]
	if *latest >= 0 {
		if like := &c.entries[*latest]; e.flags == uint16(take) && like.limit == e.limit && like.hits == e.hits {
			like.count++
			return
		}
	}
	*latest = -1
	if e.flags == uint16(take) {
		*latest = int32(len(c.entries))
	}
	c.entries = append(c.entries, e)
}

// isPlain reports whether a request is charged if all its asks fit and else not
// at all, with a key for each and no log.
func (c *Call) isPlain(from, to int) bool {
	const many = 8 // from when on to compare keys takes long
	if to-from > many {
		return false
	}
	for i := from; i < to; i++ {
		if a := &c.asks[i]; a.flags() != uint16(take) || a.Limit.Algorithm == SlidingWindowLog {
			return false
		}
		for j := from; j < i; j++ {
			if c.places[i].key == c.places[j].key {
				return false
			}
		}
	}
	return true
}

// groupEnd returns where the request ends that begins with an ask.
func (c *Call) groupEnd(from int) int {
	to := from + 1
	for to < len(c.asks) && c.asks[to].Group == c.asks[from].Group {
		to++
	}
	return to
}

// few is up to how many keys or limits a walk finds one faster than a map, which
// also costs to be emptied.
const few = 12

func (c *Call) placeLimit(l *Limit) uint32 {
	if l.Algorithm == SlidingWindowLog {
		c.logs++
	}
	for i := range c.limits[:min(few, len(c.limits))] {
		if c.limits[i].Limit == l {
			return uint32(i)
		}
	}
	if at, known := c.limitOf[l]; known {
		return at
	}
	at := uint32(len(c.limits))
	if at >= few {
		c.limitOf[l] = at
	}
	limit := calledLimit{Limit: l}
	if l.Calendar != nil {
		limit.begin, limit.end = l.Calendar.Window(c.clock)
	}
	c.limits = append(c.limits, limit)
	return at
}

func (c *Call) placeKey(key []byte) uint32 {
	if len(c.keys) <= few {
		for i := range c.keys {
			if bytes.Equal(c.keys[i], key) {
				return uint32(i)
			}
		}
	} else if at, known := c.keyOf[string(key)]; known {
		return at
	}
	c.keys = append(c.keys, key)
	last := len(c.keys) - 1
	switch {
	case last > few:
		c.keyOf[string(key)] = uint32(last)
	case last == few:
		for i := range c.keys {
			c.keyOf[string(c.keys[i])] = uint32(i)
		}
	}
	return uint32(last)
}

// The flags of an ask, as the script reads them. The lowest two bits are its
// charge.
const (
	flagCharge = 3
	flagAlone  = 4
	flagNoVeto = 8
	flagQuota  = 16
	flagHeld   = 32  // the request does not pass
	flagOver   = 64  // charged, if it does not fit, also when the request does not pass
	flagPlain  = 128 // begins a request of several that is charged if all of them fit, for different keys and no log
	flagJoined = 256 // belongs to the same request as the ask before it
)

func (a *Ask) flags() uint16 {
	flags := uint16(a.how())
	set := func(flag uint16, on bool) {
		if on {
			flags |= flag
		}
	}
	set(flagAlone, a.alone())
	set(flagNoVeto, !a.hasSay())
	set(flagQuota, a.Quota && a.Counting != OnlyOver)
	set(flagOver, a.chargesOver())
	set(flagHeld, a.Withheld)
	return flags
}

// Keys are the script's KEYS: each distinct key once.
func (c *Call) Keys() [][]byte { return c.keys }

// Args is the script's ARGV[1]. It is valid until the next call of Args or
// Reset.
func (c *Call) Args() []byte {
	b := appendNumber(c.args[:0], c.now)
	b = appendNumber(b, int64(c.slack/time.Millisecond))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(c.limits)))
	b = binary.LittleEndian.AppendUint32(b, uint32(c.logs))
	runs := len(b)
	b = binary.LittleEndian.AppendUint32(b, 0)
	for i := range c.limits {
		b = c.limits[i].appendTo(b)
	}
	n := uint32(0)
	for at := 0; at < len(c.entries); n++ {
		to := c.runEnd(at)
		b = c.entries[at].appendTo(b, c.entries[to-1].key)
		at = to
	}
	binary.LittleEndian.PutUint32(b[runs:], n)
	c.args = b
	return b
}

// runEnd returns where the run ends that begins with an entry: entries that
// differ by their keys only, which follow each other.
func (c *Call) runEnd(from int) int {
	want := c.entries[from]
	to := from + 1
	if want.flags > flagCharge || c.limits[want.limit].Algorithm == SlidingWindowLog {
		return to
	}
	for ; to < len(c.entries); to++ {
		if want.key++; c.entries[to] != want {
			break
		}
	}
	if to < len(c.entries) && c.entries[to].flags >= flagJoined && to-1 > from {
		return to - 1 // the last begins a request of several
	}
	return to
}

func (e *entry) appendTo(b []byte, last uint32) []byte {
	b = binary.LittleEndian.AppendUint16(b, e.flags)
	b = binary.LittleEndian.AppendUint32(b, e.limit+1) // Lua counts from 1
	b = appendNumber(b, e.hits)
	b = binary.LittleEndian.AppendUint32(b, e.count)
	b = binary.LittleEndian.AppendUint32(b, e.key+1)
	return binary.LittleEndian.AppendUint32(b, last+1)
}

// calendarKind marks a limit whose last two numbers are its window's bounds.
const calendarKind = 128

func (l *calledLimit) appendTo(b []byte) []byte {
	kind, x, y := l.Algorithm.kind(), l.scale, l.drip
	if l.Calendar != nil {
		kind, x, y = kind|calendarKind, l.begin, l.end
	}
	b = append(b, kind)
	for _, n := range [...]int64{l.Capacity, l.windowµ, l.tick, l.maxUsed, x, y} {
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
