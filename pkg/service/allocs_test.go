//go:build !race

package service

// The race detector lets pools forget at random, so allocations are counted
// without it.

import (
	"fmt"
	"testing"
)

// From the bytes of requests to those of replies nothing is allocated.
func TestAnswerDoesNotAllocate(t *testing.T) {
	all := DefaultOptions()
	all.Body = true
	all.Headers.Triple, all.Headers.XTriple, all.Headers.Delay = true, true, true
	for name, o := range map[string]Options{"bare": {}, "default": DefaultOptions(), "all headers": all, "metered": {Meter: silent{}}} {
		for _, store := range []Decider{instant{}, refusing{}} {
			s, err := New(store, o, nil)
			if err != nil {
				t.Fatal(err)
			}
			s.SetRules(compile(t, mixedPolicy("precise")))
			if name != "default" {
				s.SetRules(hiding(t, mixedPolicy("precise")))
			}
			for _, size := range []int{1, 64} {
				batch := make([]Exchange, size)
				for i := range batch {
					batch[i].Request = encode(&anyRequest{Domain: []byte("t"), Descriptors: []anyDescriptor{
						{Entries: entries("base", fmt.Sprint("s", i))}, {Entries: entries("user", "u1\xff")}, {Entries: entries("queue", "x")}, {Entries: entries("unknown", "x")},
						{Entries: entries("brings", "x"), HasOverride: true, Override: everything.Descriptors[2].Override},
					}})
				}
				if n := testing.AllocsPerRun(100, func() {
					for i := range batch {
						batch[i].Reply, batch[i].Err = batch[i].Reply[:0], nil
					}
					s.Answer(t.Context(), batch)
					for i := range batch {
						if batch[i].Err != nil || len(batch[i].Reply) == 0 {
							t.Fatal(batch[i].Err)
						}
					}
				}); n != 0 {
					t.Errorf("%s, %T, %d requests: %v allocations", name, store, size, n)
				}
			}
		}
	}
}
