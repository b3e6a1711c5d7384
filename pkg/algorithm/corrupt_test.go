package algorithm

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// TestCorruptKeyFailsOnlyItsOwnRequest puts what no store wrote under a key,
// and asks for it between requests that are sound.
func TestCorruptKeyFailsOnlyItsOwnRequest(t *testing.T) {
	redis := newScripted(t)
	ctx := context.Background()
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 4))
		a := All[r.IntN(len(All))]
		l := mustLimit(t, Spec{Algorithm: a.Name, Requests: 5, Window: time.Hour})
		bad, good := fmt.Sprintf("bad%d", seed), fmt.Sprintf("good%d", seed)
		if err := garble(ctx, redis, r, bad); err != nil {
			t.Fatal(err)
		}
		asks := []Ask{
			{Key: []byte(good), Limit: l, Hits: 1, Group: 0},
			{Key: []byte(good), Limit: l, Hits: 1, Group: 1},
			{Key: []byte(bad), Limit: l, Hits: 1, Group: 1},
			{Key: []byte(good), Limit: l, Hits: 1, Group: 2},
		}
		out := make([]Decision, len(asks))
		redis.decide(t, 0, asks, out)
		undecided := errors.Is(out[1].Err, ErrCorrupt) && errors.Is(out[2].Err, ErrCorrupt)
		if decided := out[1].Err == nil && out[2].Err == nil; !undecided && !decided {
			t.Fatalf("%s, seed %d: %+v", a.Name, seed, out)
		}
		want := int64(2)
		if !undecided && out[1].After == out[1].Before+1 {
			want = 3 // what looks like a state is taken for one
		}
		if out[3].Outcome != Allowed || out[3].After != want {
			t.Fatalf("%s, seed %d: the sound request got %+v, want %d in use", a.Name, seed, out[3], want)
		}
	}
}

// garble stores a value of any type.
func garble(ctx context.Context, s *scripted, r *rand.Rand, key string) error {
	garbage := make([]byte, r.IntN(40))
	for i := range garbage {
		garbage[i] = byte(r.Uint32())
	}
	switch r.IntN(7) {
	case 0:
		return s.client.Set(ctx, key, garbage, time.Hour).Err()
	case 1, 2:
		odd := []uint64{0, 0, 1, 1e15, 2e15, 1 << 53, 1<<53 + 1, 1<<56 - 1}
		var b []byte
		for range 3 {
			b = binary.LittleEndian.AppendUint64(b, odd[r.IntN(len(odd))])[:len(b)+7]
		}
		return s.client.Set(ctx, key, append(b, garbage[:min(5, len(garbage))]...), time.Hour).Err()
	case 3:
		return s.client.HSet(ctx, key, "a", "b").Err()
	case 4:
		return s.client.SAdd(ctx, key, "a").Err()
	case 5:
		return s.client.RPush(ctx, key, "1e15", string(garbage), "x", "-3").Err()
	default:
		return s.client.RPush(ctx, key, "nan", "inf", "", "9e99").Err()
	}
}

// TestDecodeRefusesOtherReplies: a reply of another length is no decision.
func TestDecodeRefusesOtherReplies(t *testing.T) {
	var call Call
	call.Reset([]Ask{{Key: []byte("k"), Limit: mustLimit(t, Spec{Requests: 1, Window: time.Second})}}, 0, 0, time.Second)
	out := make([]Decision, 1)
	for _, n := range []int{0, 7, 8, 33, 35, 60} {
		if err := call.Decode(make([]byte, n), out); err == nil {
			t.Errorf("%d bytes are taken for a reply", n)
		}
	}
	reply := append(make([]byte, 8), bytes.Repeat([]byte{255}, 26)...)
	if err := call.Decode(reply, out); err != nil || out[0].Outcome != Undecided || !errors.Is(out[0].Err, ErrCorrupt) {
		t.Errorf("got %+v, %v", out[0], err)
	}
}
