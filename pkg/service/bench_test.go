package service

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// siteRequests are requests of one descriptor, each with a counter of its own.
func siteRequests(n int) []Exchange {
	batch := make([]Exchange, n)
	for i := range batch {
		batch[i].Request = encode(&anyRequest{Domain: []byte("t"), Descriptors: []anyDescriptor{{Entries: entries("site", fmt.Sprintf("client-%04d", i))}}})
	}
	return batch
}

// answerAgain answers a batch whose replies have room, as a transport would.
func answerAgain(b *testing.B, s *Service, batch []Exchange) {
	for i := range batch {
		batch[i].Reply = batch[i].Reply[:0]
	}
	s.Answer(b.Context(), batch)
	if batch[0].Err != nil {
		b.Error(batch[0].Err)
	}
}

// perRequest reports the time of a request and, since others may share the
// cores, the processor's time.
func perRequest(b *testing.B, size int) func() {
	cpu := func() int64 {
		var usage syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
			b.Fatal(err)
		}
		return usage.Utime.Nano() + usage.Stime.Nano()
	}
	before := cpu()
	return func() {
		b.ReportMetric(float64(cpu()-before)/float64(b.N*size), "cpu-ns/request")
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*size), "ns/request")
	}
}

// BenchmarkAnswer reports ns/request, from the bytes of a request to those of
// its reply: with a store that decides nothing, and with the tests' own one.
func BenchmarkAnswer(b *testing.B) {
	for _, store := range []string{"none", "memory"} {
		for _, size := range []int{1, 8, 64} {
			for _, row := range []struct {
				name string
				o    Options
			}{{"bare", Options{}}, {"default", DefaultOptions()}} {
				b.Run(fmt.Sprintf("store=%s/batch=%d/%s", store, size, row.name), func(b *testing.B) {
					var d Decider = instant{}
					if store == "memory" {
						d = newMemory()
					}
					s, err := New(d, row.o, nil)
					if err != nil {
						b.Fatal(err)
					}
					s.SetRules(compile(b, "domain: t\ndescriptors:\n  - {key: site, rate_limit: {unit: hour, requests_per_unit: 4294967295}}\n"))
					batch := siteRequests(size)
					b.ReportAllocs()
					report := perRequest(b, size)
					for b.Loop() {
						answerAgain(b, s, batch)
					}
					report()
				})
			}
		}
	}
}

// BenchmarkAnswerParallel is as many batches at a time as there are cores, all
// of one rule, so that its counters are in demand.
func BenchmarkAnswerParallel(b *testing.B) {
	const size = 64
	s, err := New(instant{}, DefaultOptions(), nil)
	if err != nil {
		b.Fatal(err)
	}
	s.SetRules(compile(b, sitePolicy))
	b.ReportAllocs()
	report := perRequest(b, size)
	b.RunParallel(func(pb *testing.PB) {
		batch := siteRequests(size)
		for pb.Next() {
			answerAgain(b, s, batch)
		}
	})
	report()
}

// BenchmarkAnswerOf shows what requests of other kinds cost.
func BenchmarkAnswerOf(b *testing.B) {
	overriding := anyDescriptor{Entries: entries("site", "s"), HasOverride: true}
	overriding.Override.Requests, overriding.Override.Unit = 5, 3
	three := []anyDescriptor{{Entries: entries("site", "s")}, {Entries: entries("acct", "u1")}, {Entries: entries("none", "x")}}
	metadata := DefaultOptions()
	metadata.Metadata = true
	for _, row := range []struct {
		name  string
		store Decider
		o     Options
		list  []anyDescriptor
	}{
		{"three descriptors", instant{}, DefaultOptions(), three},
		{"one descriptor", instant{}, DefaultOptions(), three[:1]},
		{"override", instant{}, DefaultOptions(), []anyDescriptor{overriding}},
		{"denial", refusing{}, DefaultOptions(), three[:1]},
		{"denial with a body", refusing{}, Options{Body: true}, three[:1]},
		{"metadata", instant{}, metadata, three[:1]},
		{"hidden values", instant{}, DefaultOptions(), three[:1]},
	} {
		b.Run(row.name, func(b *testing.B) {
			s, err := New(row.store, row.o, nil)
			if err != nil {
				b.Fatal(err)
			}
			s.SetRules(compile(b, sitePolicy))
			if row.name == "hidden values" {
				s.SetRules(hiding(b, sitePolicy))
			}
			batch := make([]Exchange, 8)
			for i := range batch {
				batch[i].Request = encode(&anyRequest{Domain: []byte("t"), Descriptors: row.list})
			}
			b.ReportAllocs()
			report := perRequest(b, len(batch))
			for b.Loop() {
				answerAgain(b, s, batch)
			}
			report()
		})
	}
}

// BenchmarkSteps is what the parts of an answer cost, each for one request, and
// the same with generated messages.
func BenchmarkSteps(b *testing.B) {
	s, err := New(instant{}, DefaultOptions(), nil)
	if err != nil {
		b.Fatal(err)
	}
	s.SetRules(compile(b, sitePolicy))
	exchange := siteRequests(1)
	answerAgain(b, s, exchange)
	var memory batch
	b.Run("decode", func(b *testing.B) {
		for b.Loop() {
			memory.reset()
			memory.decode(exchange[0].Request)
		}
	})
	b.Run("admit", func(b *testing.B) {
		for b.Loop() {
			memory.reset()
			s.admit(&memory, s.table.Load(), &exchange[0], time.Now())
		}
	})
	s.decide(b.Context(), &memory, s.table.Load())
	b.Run("key", func(b *testing.B) {
		r := memory.rules[0]
		for b.Loop() {
			memory.keys = r.Limits[0].AppendKey(memory.keys[:0], memory.entries)
		}
	})
	b.Run("match", func(b *testing.B) {
		domain := s.table.Load().rules.Domain([]byte("t"))
		for b.Loop() {
			domain.Match(memory.entries)
		}
	})
	b.Run("count", func(b *testing.B) {
		for b.Loop() {
			memory.count()
		}
	})
	b.Run("reply", func(b *testing.B) {
		for b.Loop() {
			exchange[0].Reply = exchange[0].Reply[:0]
			s.reply(b.Context(), &memory, 0, &exchange[0])
		}
	})
	b.Run("generated decode", func(b *testing.B) {
		for b.Loop() {
			_ = proto.Unmarshal(exchange[0].Request, new(rlsv3.RateLimitRequest))
		}
	})
	response, _ := replyOf(b, &exchange[0])
	b.Run("generated encode", func(b *testing.B) {
		var reply []byte
		for b.Loop() {
			reply, _ = proto.MarshalOptions{}.MarshalAppend(reply[:0], response)
		}
	})
	var out [1]algorithm.Decision
	b.Run("store none", func(b *testing.B) {
		for b.Loop() {
			instant{}.Decide(b.Context(), memory.asks, out[:])
		}
	})
}
