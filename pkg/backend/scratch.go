package backend

import (
	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// scratch is what deciding one request in memory needs besides the store. It
// is used again and again, so that deciding allocates nothing for known keys.
type scratch struct {
	states  []*algorithm.State
	entries []*entry // nil: a key that the store does not hold
	hashes  []uint64
	shards  []uint8
	fresh   []freshKey
	temps   []algorithm.State // of fresh keys; never grows once pointed into
	byKey   map[string]int    // index into fresh, for requests with many keys
	used    int               // the most asks of a request since forget
}

// freshKey is a key that the store does not hold.
type freshKey struct {
	ask   int // the first ask for it
	shard uint8

	// mayStay is false when nothing that is asked could leave a state: looks,
	// and hits given back.
	mayStay bool
}

// manyKeys is from when on a map finds a key faster than a walk.
const manyKeys = 16

// begin makes room for n asks.
func (sc *scratch) begin(n int) {
	if cap(sc.states) < n {
		sc.states = make([]*algorithm.State, n)
		sc.entries = make([]*entry, n)
		sc.hashes = make([]uint64, n)
		sc.shards = make([]uint8, n)
		sc.temps = make([]algorithm.State, n)
	}
	sc.states, sc.entries, sc.hashes, sc.shards = sc.states[:n], sc.entries[:n], sc.hashes[:n], sc.shards[:n]
	sc.temps, sc.fresh = sc.temps[:0], sc.fresh[:0]
	clear(sc.byKey)
	sc.used = max(sc.used, n)
}

// forget drops references into the store, so that a pooled scratch keeps no
// state alive, and what a very large request has made it grow to.
func (sc *scratch) forget() {
	if sc.used > 1024 {
		*sc = scratch{}
		return
	}
	clear(sc.states[:sc.used])
	clear(sc.entries[:sc.used])
	clear(sc.temps[:sc.used])
	sc.used = 0
}

// find points each ask at the state of its key: that in its shard, or a new
// one. Asks with the same key get the same state.
func (sc *scratch) find(shards []*shard, asks []algorithm.Ask) {
	for i := range asks {
		e := shards[sc.shards[i]].entries.find(sc.hashes[i], asks[i].Key)
		sc.entries[i] = e
		if e != nil {
			sc.states[i] = &e.state
			continue
		}
		at := sc.seen(asks, i)
		if at < 0 {
			at = len(sc.fresh)
			sc.fresh = append(sc.fresh, freshKey{ask: i, shard: sc.shards[i]})
			sc.temps = append(sc.temps, algorithm.State{})
			if len(asks) > manyKeys {
				sc.remember(asks[i].Key, at)
			}
		}
		if asks[i].Hits > 0 && asks[i].Mode != algorithm.GiveBack {
			sc.fresh[at].mayStay = true
		}
		sc.states[i] = &sc.temps[at]
	}
}

// seen returns the index in fresh of the key of ask i, or -1.
func (sc *scratch) seen(asks []algorithm.Ask, i int) int {
	if len(asks) > manyKeys {
		if at, ok := sc.byKey[string(asks[i].Key)]; ok {
			return at
		}
		return -1
	}
	for at, f := range sc.fresh {
		if f.shard == sc.shards[i] && string(asks[f.ask].Key) == string(asks[i].Key) {
			return at
		}
	}
	return -1
}

func (sc *scratch) remember(key []byte, at int) {
	if sc.byKey == nil {
		sc.byKey = make(map[string]int)
	}
	sc.byKey[string(key)] = at
}

// freshIn returns how many new keys a shard may have to hold.
func (sc *scratch) freshIn(shard uint8) int {
	n := 0
	for _, f := range sc.fresh {
		if f.shard == shard && f.mayStay {
			n++
		}
	}
	return n
}

// lift takes the request's own entries out of a shard's agendas, so that they
// are not dropped to make room for its new keys.
func (sc *scratch) lift(from *shard, number uint8) {
	for i, e := range sc.entries {
		if e != nil && sc.shards[i] == number {
			from.leave(e)
		}
	}
}

// putBack undoes lift for a request that is not decided after all.
func (sc *scratch) putBack(shards []*shard) {
	for i, e := range sc.entries {
		if e != nil && e.in == inNone {
			shards[sc.shards[i]].schedule(e)
		}
	}
}

// keep stores what the decisions have made of the states. The last decision on
// a key says how it stands.
func (sc *scratch) keep(shards []*shard, now int64, asks []algorithm.Ask, out []algorithm.Decision) {
	for i, e := range sc.entries {
		if e == nil {
			continue
		}
		// With one ask its decision says when the state expires. With more the
		// state has to be asked, since others may have charged the same key.
		expiry := now + out[i].Reset.Microseconds()
		if len(asks) > 1 {
			expiry = asks[i].Limit.Expiry(&e.state)
		}
		shards[sc.shards[i]].update(e, asks[i].Limit, now, expiry, out[i].Remaining > 0)
	}
	for at, f := range sc.fresh {
		shards[f.shard].insert(sc.hashes[f.ask], &asks[f.ask], sc.temps[at], now)
	}
}
