package backend

// index finds the entries of a shard by key. It is a map by the keys' hash,
// which takes less room than one by key, and costs less, as the hash is known
// before. An entry whose place is taken by another, which hardly ever happens,
// is in the next one that is free.
type index struct {
	hash    func(key string) uint64
	entries map[uint64]*entry
}

func newIndex(hash func(key string) uint64) index { return index{hash, make(map[uint64]*entry)} }

func (x *index) len() int { return len(x.entries) }

// find returns the entry of a key with a hash, or nil.
func (x *index) find(hash uint64, key []byte) *entry {
	for ; ; hash++ {
		if e := x.entries[hash]; e == nil || e.key == string(key) {
			return e
		}
	}
}

// add adds the entry of a key that has none.
func (x *index) add(hash uint64, e *entry) {
	for x.entries[hash] != nil {
		hash++
	}
	x.entries[hash] = e
}

// remove removes an entry, and moves up those that it has kept from their
// place.
func (x *index) remove(e *entry) {
	at := x.hash(e.key)
	for x.entries[at] != e {
		at++
	}
	delete(x.entries, at)
	for at++; x.entries[at] != nil; at++ {
		moved := x.entries[at]
		delete(x.entries, at)
		x.add(x.hash(moved.key), moved)
	}
}
