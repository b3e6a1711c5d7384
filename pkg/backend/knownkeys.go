package backend

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// knownKeys remembers denials, in parts by the keys' hash. It is safe for
// concurrent use.
type knownKeys struct {
	seed  maphash.Seed
	total atomic.Int64 // entries in all parts
	parts [64]knownPart
}

// knownPart holds what was learned lately, and what was before that. Nothing is
// worth knowing for longer than maxKnown, so that once in that time the older
// half is dropped as a whole.
type knownPart struct {
	all *knownKeys

	mu         sync.Mutex // protects what follows
	most       int        // entries of new
	new, old   map[string]denial
	turned     time.Time // when new was begun
	gaveBackAt time.Time // what was asked before may know a key by what it no longer holds
	counted    int       // of both maps

	expired, overwritten, withoutRoom uint64 // see KnownOverStats

	_ [64]byte // a part has cache lines of its own
}

// denial is what the store said, when it was asked.
type denial struct {
	asked    time.Time
	limit    *algorithm.Limit
	hits     int64
	decision algorithm.Decision
}

func newKnownKeys(maxKeys int) *knownKeys {
	k := &knownKeys{seed: maphash.MakeSeed()}
	for i := range k.parts {
		p := &k.parts[i]
		p.all, p.most = k, max(1, maxKeys/len(k.parts)/2)
		p.new, p.old = make(map[string]denial), make(map[string]denial)
	}
	return k
}

// empty reports whether nothing is known, which costs less than to look for it.
func (k *knownKeys) empty() bool { return k.total.Load() == 0 }

func (k *knownKeys) part(key []byte) *knownPart {
	return &k.parts[maphash.Bytes(k.seed, key)%uint64(len(k.parts))]
}

// over reports whether an ask is known to be denied, and fills in the decision.
func (k *knownKeys) over(now time.Time, a *algorithm.Ask, d *algorithm.Decision) bool {
	p := k.part(a.Key)
	p.mu.Lock()
	p.turn(now)
	known, ok := p.new[string(a.Key)]
	if !ok {
		known, ok = p.old[string(a.Key)]
	}
	p.mu.Unlock()
	if !ok || known.hits > a.Hits || now.Sub(known.asked) >= known.lasts() || known.limit != a.Limit && *known.limit != *a.Limit {
		return false
	}
	*d = known.now(now, a)
	return true
}

// add remembers a denial, unless the store was asked before hits were given
// back.
func (k *knownKeys) add(asked time.Time, a *algorithm.Ask, d *algorithm.Decision) {
	p := k.part(a.Key)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turn(asked)
	switch _, known := p.new[string(a.Key)]; {
	case !asked.After(p.gaveBackAt):
		return
	case known:
		p.overwritten++
	case len(p.new) >= p.most:
		p.withoutRoom++
		return
	}
	p.new[string(a.Key)] = denial{asked: asked, limit: a.Limit, hits: a.Hits, decision: *d}
	p.count()
}

// forget drops a key to which hits were given back, and what is learned of those
// that were asked until now.
func (k *knownKeys) forget(key []byte, now time.Time) {
	p := k.part(key)
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.new, string(key))
	delete(p.old, string(key))
	p.gaveBackAt = now
	p.count()
}

// turn drops what is older than is worth knowing.
func (p *knownPart) turn(now time.Time) {
	if now.Sub(p.turned) < maxKnown {
		return
	}
	p.expired += uint64(len(p.old))
	clear(p.old)
	p.new, p.old = p.old, p.new
	p.turned = now
	p.count()
}

// count brings the total up to date.
func (p *knownPart) count() {
	n := len(p.new) + len(p.old)
	p.all.total.Add(int64(n - p.counted))
	p.counted = n
}

// stats returns what is known of all parts.
func (k *knownKeys) stats() KnownOverStats {
	s := KnownOverStats{Keys: int(k.total.Load())}
	for i := range k.parts {
		p := &k.parts[i]
		p.mu.Lock()
		s.Expired += p.expired
		s.Overwritten += p.overwritten
		s.WithoutRoom += p.withoutRoom
		p.mu.Unlock()
	}
	return s
}

// lasts is how long after the store was asked the denial holds.
func (d *denial) lasts() time.Duration { return min(maxKnown, d.decision.RetryAfter) }

// now is the decision as it stands some time later.
func (d *denial) now(now time.Time, a *algorithm.Ask) algorithm.Decision {
	since := now.Sub(d.asked).Truncate(time.Microsecond)
	later := d.decision
	later.Known, later.Before = true, later.After
	later.Reset = max(0, later.Reset-since)
	if a.Hits > a.Limit.Capacity {
		later.Never, later.RetryAfter = true, a.Limit.Window
	} else {
		later.RetryAfter -= since
	}
	return later
}
