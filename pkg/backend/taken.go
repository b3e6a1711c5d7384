package backend

import (
	"time"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// taken is a key that was taken out of a [Memory].
type taken struct {
	key   string
	limit *algorithm.Limit // by which it was last decided
	used  int64            // hits in use at the time
}

// take takes up to n keys out of the store for which want reports true, from a
// shard on, and returns the shard to go on with. What is asked for them from then
// on begins anew.
func (m *Memory) take(from, n int, want func(key string, l *algorithm.Limit) bool) (some []taken, next int) {
	now := time.Now().UnixMicro()
	for next = from; next < len(m.shards); next++ {
		if some = m.shards[next].take(some, n, now, want); len(some) >= n {
			break
		}
	}
	return some, next
}

// take adds to some, until there are n.
func (s *shard) take(some []taken, n int, now int64, want func(key string, l *algorithm.Limit) bool) []taken {
	s.mu.Lock()
	defer s.mu.Unlock()
	var entries []*entry // first: dropping moves others
	for _, e := range s.entries.entries {
		if len(some)+len(entries) >= n {
			break
		}
		if want(e.key, e.limit) {
			entries = append(entries, e)
		}
	}
	for _, e := range entries {
		some = append(some, taken{key: e.key, limit: e.limit, used: e.limit.Used(e.state, now)})
		s.drop(e)
	}
	return some
}
