package algorithm

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// A charge moves the expiry of its key only when it has to: at any time a key
// lives at least until its state, by the limit that last charged it, equals one
// never seen.
func TestKeysOutliveTheirStates(t *testing.T) {
	const steps = 6_000
	ctx := context.Background()
	s := newScripted(t)
	r := rand.New(rand.NewPCG(7, 7))
	limits, charged, keys := make([]*Limit, 30), make([]*Limit, 30), make([][]byte, 30)
	renew := func(i int) {
		limits[i] = randomLimit(r)
		keys[i] = fmt.Appendf(nil, "%d %s %v", i, limits[i].Algorithm.Name, limits[i].Window)
	}
	for i := range limits {
		renew(i)
	}
	for step := range steps {
		i := r.IntN(len(limits))
		switch r.IntN(20) {
		case 0:
			renew(i)
		case 1:
			limits[i] = anotherSize(r, limits[i])
		}
		ask := Ask{Key: keys[i], Limit: limits[i], Hits: randomHits(r, limits[i]), Mode: Mode(r.IntN(8) % 3)}
		var out [1]Decision
		s.call.Reset([]Ask{ask}, 0, 0, time.Second)
		reply := s.run(t)
		if err := s.call.Decode(reply, out[:]); err != nil {
			t.Fatal(err)
		}
		if out[0].After != out[0].Before {
			charged[i] = limits[i]
		}
		expiry := number(reply) + out[0].Reset.Microseconds()
		var clock *redis.TimeCmd
		var ttl *redis.DurationCmd
		if _, err := s.client.TxPipelined(ctx, func(p redis.Pipeliner) error {
			clock, ttl = p.Time(ctx), p.PTTL(ctx, string(ask.Key))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		where := fmt.Sprintf("step %d, %v, %+v", step, ask.Limit, out[0])
		switch left := micros(expiry - clock.Val().UnixMicro()); {
		case charged[i] != limits[i]:
		case ttl.Val() == -1:
			t.Fatalf("%s: the key never expires", where)
		case ttl.Val() == -2 && left > 0:
			t.Fatalf("%s: no key", where)
		case ttl.Val() > 0 && out[0].Reset > 0 && ttl.Val() < left:
			t.Fatalf("%s: the key lives for %v, want at least %v", where, ttl.Val(), left)
		}
	}
}
