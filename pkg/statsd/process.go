package statsd

import "runtime"

// Process is a [Source] of metrics about memory and the garbage collector.
func Process(tell func(Metric)) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	for name, value := range map[string]uint64{
		"totalAlloc": m.TotalAlloc, "lookups": m.Lookups, "mallocs": m.Mallocs, "frees": m.Frees, "pauseTotalNs": m.PauseTotalNs, "numGC": uint64(m.NumGC),
	} {
		tell(Metric{Name: "ratelimit.go." + name, Value: float64(value)})
	}
	for name, value := range map[string]uint64{
		"alloc": m.Alloc, "sys": m.Sys,
		"heapAlloc": m.HeapAlloc, "heapSys": m.HeapSys, "heapIdle": m.HeapIdle, "heapInuse": m.HeapInuse, "heapReleased": m.HeapReleased, "heapObjects": m.HeapObjects,
		"nextGC": m.NextGC, "lastGC": m.LastGC, "gcCPUPercent": uint64(m.GCCPUFraction * 100), "numGoroutine": uint64(runtime.NumGoroutine()),
	} {
		tell(Metric{Name: "ratelimit.go." + name, Value: float64(value), Gauge: true})
	}
}
