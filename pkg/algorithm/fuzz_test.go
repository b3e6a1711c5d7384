package algorithm

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"testing"
	"time"
)

// FuzzReply decodes whatever a server may reply to a call: it never panics, and
// each decision is one that a request can be told.
func FuzzReply(f *testing.F) {
	var asks []Ask
	group := int32(0)
	for _, a := range All {
		for _, spec := range []Spec{
			{Algorithm: a.Name, Requests: 5, Window: time.Hour},
			{Algorithm: a.Name, Requests: 5, Window: time.Minute, Overdraw: true},
		} {
			l, err := NewLimit(spec)
			if err != nil {
				continue // not every algorithm overdraws
			}
			for _, ask := range []Ask{
				{Limit: l, Hits: 1}, {Limit: l, Hits: 1}, {Limit: l, Hits: 1 << 53}, {Limit: l}, {Limit: l, Hits: 3, Mode: GiveBack},
				{Limit: l, Hits: 1, Shadow: true}, {Limit: l, Hits: 1, Quota: true}, {Limit: l, Hits: 1, Counting: Reference},
			} {
				ask.Key, ask.Group = []byte(a.Name), group/3 // some of them in one request
				asks, group = append(asks, ask), group+1
			}
		}
	}
	var c Call
	c.Reset(asks, 0, time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC).UnixMicro(), time.Second)
	right := replyHead + stateSize*len(c.Keys()) + toldSize*c.logs
	f.Add(make([]byte, right))
	clock := binary.LittleEndian.AppendUint64(nil, math.Float64bits(1.8e15))
	for _, b := range [][]byte{{0xff}, {1, 0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0x40, 0}, {1, 3, 2}, clock} {
		f.Add(append(slices.Clone(clock), bytes.Repeat(b, right)[:right-len(clock)]...))
	}
	f.Add(bytes.Repeat([]byte{0xff}, right))
	f.Add([]byte{})
	out := make([]Decision, len(asks))
	f.Fuzz(func(t *testing.T, reply []byte) {
		clear(out)
		err := c.Decode(reply, out)
		if err == nil && len(reply) != right {
			t.Fatalf("took %d bytes, want %d", len(reply), right)
		}
		if err != nil {
			return
		}
		for i := range out {
			if d := &out[i]; (d.Outcome == Undecided) != (d.Err != nil) || d.Remaining < 0 || d.RetryAfter < 0 || d.Reset < 0 || d.Delay < 0 {
				t.Errorf("%s, ask %d: %+v", asks[i].Limit.Algorithm.Name, i, *d)
			}
		}
	})
}
