package algorithm

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"
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
	info, err := s.client.Info(context.Background(), "cpu").Result()
	if err != nil {
		b.Fatal(err)
	}
	total := 0.0
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_sys" || name == "used_cpu_user" {
			seconds, err := strconv.ParseFloat(value, 64)
			if err != nil {
				b.Fatal(err)
			}
			total += seconds
		}
	}
	return time.Duration(total * float64(time.Second))
}
