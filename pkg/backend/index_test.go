package backend

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// Keys that want the same place, or that of another, are found all the same,
// whichever come and go.
func TestIndexKeepsWhatCollides(t *testing.T) {
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, 1))
		places := 1 + random.Uint64N(12)
		x := newIndex(func(key string) uint64 { return uint64(key[len(key)-1]) % places })
		keys, held := make([]*entry, 12), make([]bool, 12)
		for i := range keys {
			keys[i] = &entry{key: fmt.Sprint(seed, string(rune('a'+i)))}
		}
		n := 0
		for range 300 {
			i := random.IntN(len(keys))
			if held[i] {
				x.remove(keys[i])
				n--
			} else {
				x.add(x.hash(keys[i].key), keys[i])
				n++
			}
			held[i] = !held[i]
			for i, e := range keys {
				if got := x.find(x.hash(e.key), []byte(e.key)); (got == e) != held[i] || got != nil && got != e {
					t.Fatalf("seed %d: key %d held %v, found %v", seed, i, held[i], got)
				}
			}
			if x.len() != n {
				t.Fatalf("seed %d: %d entries, want %d", seed, x.len(), n)
			}
		}
	}
}
