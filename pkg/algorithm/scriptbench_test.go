package algorithm

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// BenchmarkScript is what a decision costs Redis, by its own account of the
// processor's time: calls of so many asks, each a request of its own, on so many
// keys. One call is under way at a time, as with a store that sends as soon as
// the last reply is back.
func BenchmarkScript(b *testing.B) {
	for _, a := range All {
		l := mustLimit(b, Spec{Algorithm: a.Name, Requests: 1000, Window: time.Minute})
		for _, batch := range []int{1, 8, 64, 128} {
			for _, keys := range []int{1, 64, 10_000} {
				b.Run(fmt.Sprintf("%s/asks=%d/keys=%d", a.Name, batch, keys), func(b *testing.B) {
					benchmarkScript(b, l, batch, keys, 1)
				})
			}
		}
	}
}

// BenchmarkScriptDescriptors is the same for requests of three asks.
func BenchmarkScriptDescriptors(b *testing.B) {
	l := mustLimit(b, Spec{Requests: 1000, Window: time.Minute})
	for _, keys := range []int{64, 10_000} {
		b.Run(fmt.Sprintf("requests=64/keys=%d", keys), func(b *testing.B) { benchmarkScript(b, l, 64, keys, 3) })
	}
}

// BenchmarkScriptPipelined is what a decision costs Redis in a call of its own
// that comes with others: what a call costs but for the socket. In a Cluster
// there are many such, one for each hash slot.
func BenchmarkScriptPipelined(b *testing.B) {
	for _, a := range All {
		b.Run(a.Name, func(b *testing.B) {
			const calls = 64
			s := newScripted(b)
			l := mustLimit(b, Spec{Algorithm: a.Name, Requests: 1000, Window: time.Minute})
			began := s.cpu(b)
			for b.Loop() {
				_, err := s.client.Pipelined(context.Background(), func(p redis.Pipeliner) error {
					for i := range calls {
						s.call.Reset([]Ask{{Key: fmt.Append(nil, i), Limit: l, Hits: 1}}, 0, 0, time.Second)
						p.EvalSha(context.Background(), s.sha, []string{strconv.Itoa(i)}, bytes.Clone(s.call.Args()))
					}
					return nil
				})
				if err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(s.cpu(b)-began)/float64(b.N)/calls, "redis-ns/request")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func benchmarkScript(b *testing.B, l *Limit, batch, keys, each int) {
	s := newScripted(b)
	random := rand.New(rand.NewPCG(1, 2))
	names := make([][]byte, keys)
	for i := range names {
		names[i] = fmt.Appendf(nil, "{%02x}14:edge,6:client,15:10.20.30.%d,abcdefghijklmnop", i%256, i)
	}
	asks, out := make([]Ask, batch*each), make([]Decision, batch*each)
	next := func() {
		for i := range asks {
			asks[i] = Ask{Key: names[random.IntN(keys)], Limit: l, Hits: 1, Group: int32(i / each)}
		}
		s.decide(b, 0, asks, out)
	}
	for range 4 * keys / len(asks) {
		next() // most keys are known
	}
	began := s.cpu(b)
	for b.Loop() {
		next()
	}
	b.ReportMetric(float64(s.cpu(b)-began)/float64(b.N)/float64(batch), "redis-ns/request")
	b.ReportMetric(0, "ns/op")
}

// cpu is the processor's time that the server has used.
func (s *scripted) cpu(b *testing.B) time.Duration {
	b.Helper()
	return time.Duration((s.info(b, "cpu", "used_cpu_sys") + s.info(b, "cpu", "used_cpu_user")) * float64(time.Second))
}

// info is a number of the server's own account.
func (s *scripted) info(b *testing.B, section, name string) float64 {
	b.Helper()
	info, err := s.client.Info(context.Background(), section).Result()
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(info) {
		if field, value, _ := strings.Cut(strings.TrimSpace(line), ":"); field == name {
			number, err := strconv.ParseFloat(value, 64)
			if err != nil {
				b.Fatal(err)
			}
			return number
		}
	}
	b.Fatalf("no %s in section %s", name, section)
	return 0
}

// BenchmarkScriptMemory is the memory that a key takes in Redis, beside that of
// a plain counter that expires. The log's key holds ten hits.
func BenchmarkScriptMemory(b *testing.B) {
	const keys = 100_000
	ctx := context.Background()
	name := func(i int) string {
		return fmt.Sprintf("{%02x}14:edge,6:client,15:10.20.30.%06d,abcdefghijklmnop", i%256, i)
	}
	measure := func(b *testing.B, fill func(s *scripted, from, to int)) {
		for b.Loop() {
			s := newScripted(b)
			fill(s, 0, 1000)
			before := s.info(b, "memory", "used_memory")
			for from := 1000; from < 1000+keys; from += 1000 {
				fill(s, from, from+1000)
			}
			b.ReportMetric((s.info(b, "memory", "used_memory")-before)/keys, "bytes/key")
		}
		b.ReportMetric(0, "ns/op")
	}
	b.Run("counter", func(b *testing.B) {
		measure(b, func(s *scripted, from, to int) {
			if _, err := s.client.Pipelined(ctx, func(p redis.Pipeliner) error {
				for i := from; i < to; i++ {
					p.IncrBy(ctx, name(i), 1)
					p.Expire(ctx, name(i), time.Hour)
				}
				return nil
			}); err != nil {
				b.Fatal(err)
			}
		})
	})
	for _, a := range All {
		l := mustLimit(b, Spec{Algorithm: a.Name, Requests: 1000, Window: time.Hour})
		b.Run(a.Name, func(b *testing.B) {
			measure(b, func(s *scripted, from, to int) {
				asks := make([]Ask, to-from)
				for i := range asks {
					asks[i] = Ask{Key: []byte(name(from + i)), Limit: l, Hits: 5, Group: int32(i)}
				}
				s.decide(b, 0, asks, make([]Decision, len(asks)))
				s.decide(b, 0, asks, make([]Decision, len(asks))) // a charge in place takes another form
			})
		})
	}
}
