package main

import (
	"fmt"
	"math"
)

// target is a bound that was set before anything was built, and what came of
// it.
type target struct {
	work    string
	bound   string
	got     string
	ratio   float64 // of what was reached to the bound
	unclear string  // why the figure says nothing; empty: it does
}

// reached says whether the bound is kept.
func (t target) reached() string {
	switch {
	case t.unclear != "":
		return "unclear: " + t.unclear
	case t.ratio <= 1:
		return "reached"
	}
	return "not reached"
}

// ratio is the median over the rounds of a figure of one row divided by a
// figure of another in the same round.
func ratio(a *row, of func(sample) float64, b *row, to func(sample) float64) float64 {
	var ratios []float64
	for i := range min(len(a.Samples), len(b.Samples)) {
		ratios = append(ratios, of(a.Samples[i])/to(b.Samples[i]))
	}
	return median(ratios, func(r float64) float64 { return r })
}

func serverTime(s sample) float64   { return s.Server }
func redisTime(s sample) float64    { return s.Redis }
func togetherTime(s sample) float64 { return s.together() }
func p50(s sample) float64          { return s.P50 }
func p99(s sample) float64          { return s.P99 }

// targets are all bounds.
func (r *run) targets() []target {
	floor := r.row(rowFrames)
	times := func(work string, bound float64, a *row, of func(sample) float64, b *row, to func(sample) float64, unit string) target {
		got := ratio(a, of, b, to)
		return target{work: work, bound: fmt.Sprintf("%.3g × %s", bound, unit), got: fmt.Sprintf("%.2f ×", got), ratio: got / bound}
	}
	micros := func(work string, bound float64, a *row, of func(sample) float64) target {
		got := median(a.Samples, of)
		return target{work: work, bound: fmt.Sprintf("%.1f µs", bound), got: fmt.Sprintf("%.2f µs", got), ratio: got / bound}
	}
	const almostNothing = .1 // µs
	all := []target{
		times("memory store: server", 2, r.row(rowMemory), serverTime, floor, serverTime, "frame floor"),
		times("Redis store: server + Redis", 3.5, r.row(rowRedis), togetherTime, floor, serverTime, "frame floor"),
		micros("Redis store: Redis", 5, r.row(rowRedis), redisTime),
		micros("Redis store, one hot key: Redis", 1.3, r.row(rowHot), redisTime),
		times("key over its limit: server", 2, r.row(rowOver), serverTime, floor, serverTime, "frame floor"),
		micros("key over its limit: Redis", almostNothing, r.row(rowOver), redisTime),
		times("3 descriptors: server + Redis", 2.2, r.row(rowThree), togetherTime, r.row(rowRedis), togetherTime, "one descriptor"),
		times("2 × 4 in flight: p50", 1, r.row(rowFew), p50, r.row(rowFewApart), p50, "grpc-go, a script call each"),
		times("2 × 4 in flight: server + Redis", .5, r.row(rowFew), togetherTime, r.row(rowFewApart), togetherTime, "grpc-go, a script call each"),
	}
	all = append(all, r.pairTargets()...)
	all = append(all, r.keyTargets()...)
	for _, s := range r.Starts {
		got := median(s.Millis, func(ms float64) float64 { return ms })
		all = append(all, target{work: "start to first answer, " + s.Server, bound: "200 ms", got: fmt.Sprintf("%.0f ms", got), ratio: got / 200})
	}
	return all
}

// pairTargets are about latency at half of the saturated rate. The calmest
// rounds of server and floor are compared; where those of the floor differ by
// more than the bound, something else decides how late answers are.
func (r *run) pairTargets() []target {
	const bound = 2 // ms
	var all []target
	for _, p := range r.Pairs {
		above := latest(p.Samples) - latest(p.Floor)
		t := target{
			work:  fmt.Sprintf("%s store at half of its saturated rate: p99", p.Server),
			bound: "2 ms above the frame floor's", got: fmt.Sprintf("%+.1f ms", above), ratio: above / bound,
		}
		highest := 0.0
		for _, s := range p.Floor {
			highest = max(highest, s.P99/1000)
		}
		if highest-latest(p.Floor) > bound {
			t.unclear = fmt.Sprintf("the floor's was %.1f to %.0f ms", latest(p.Floor), highest)
		}
		all = append(all, t)
	}
	return all
}

// keyTargets are about the size of counters.
func (r *run) keyTargets() []target {
	const besides, aboveNumber = 160, 48
	memory, inRedis, plain := 0.0, 0.0, math.Inf(1)
	for _, k := range r.KeySizes {
		switch k.Algorithm {
		case plainCounter:
			plain = k.Redis
		case "sliding_window_log":
			memory = max(memory, k.Memory-k.Name)
		default:
			memory, inRedis = max(memory, k.Memory-k.Name), max(inRedis, k.Redis)
		}
	}
	if len(r.KeySizes) == 0 {
		return nil
	}
	return []target{
		{work: "a counter in the memory store, besides its name", bound: "160 bytes", got: fmt.Sprintf("%.0f bytes", memory), ratio: memory / besides},
		{
			work: "a counter in Redis, but for the log", bound: fmt.Sprintf("%.0f + 48 bytes", plain),
			got: fmt.Sprintf("%.0f + %.0f bytes", plain, inRedis-plain), ratio: math.Round(inRedis-plain) / aboveNumber, // buffers are in it
		},
	}
}
