//go:build !race

package service

// The race detector lets pools forget at random, so allocations are counted
// without it.

import (
	"fmt"
	"testing"

	"google.golang.org/grpc/mem"
)

func TestDecodeDoesNotAllocate(t *testing.T) {
	wire := encode(&everything)
	var r Request
	data := mem.BufferSlice{mem.SliceBuffer(wire[:9]), mem.SliceBuffer(wire[9:])}
	c := Codec()
	if n := testing.AllocsPerRun(100, func() {
		if err := c.Unmarshal(data, &r); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if !same(&r, &everything) {
		t.Errorf("got %+v", r)
	}
}

// plan is the whole way of a request to the store. It allocates nothing.
func TestPlanDoesNotAllocate(t *testing.T) {
	s, err := New(instant{}, Options{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.SetRules(compile(t, sitePolicy))
	wire := encode(&Request{Domain: []byte("t"), Descriptors: []Descriptor{
		{Entries: entries("site", "s")}, {Entries: entries("acct", "u1\xff")}, {Entries: entries("unknown", "x")},
	}})
	data, codec := mem.BufferSlice{mem.SliceBuffer(wire)}, Codec()
	var request Request
	var c call
	ctx := t.Context()
	if n := testing.AllocsPerRun(100, func() {
		if err := codec.Unmarshal(data, &request); err != nil {
			t.Fatal(err)
		}
		if err := request.check(); err != nil {
			t.Fatal(err)
		}
		table := s.table.Load()
		c.reset(&request)
		c.plan(ctx, table, table.rules.Domain(request.Domain))
		s.decider.Decide(ctx, c.asks, c.decisions)
		if judge(c.asks, c.decisions).over {
			t.Fatal("over")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// A reply is a handful of allocations, however many descriptors it answers.
func TestReplyAllocations(t *testing.T) {
	for _, row := range []struct {
		name string
		o    Options
		want float64
	}{
		{"bare", Options{}, 4}, // the reply; its statuses, their resets and the list of them
		{"headers", DefaultOptions(), 7},
	} {
		s, err := New(instant{}, row.o, nil)
		if err != nil {
			t.Fatal(err)
		}
		s.SetRules(compile(t, sitePolicy))
		for _, descriptors := range []int{1, 100} {
			request := &Request{Domain: []byte("t")}
			for i := range descriptors {
				request.Descriptors = append(request.Descriptors, Descriptor{Entries: entries("site", fmt.Sprint(i))})
			}
			if n := testing.AllocsPerRun(100, func() {
				if _, err := s.ShouldRateLimit(t.Context(), request); err != nil {
					t.Fatal(err)
				}
			}); n > row.want {
				t.Errorf("%s, %d descriptors: %v allocations, want %v", row.name, descriptors, n, row.want)
			}
		}
	}
}
