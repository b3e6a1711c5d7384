package statsd

import "runtime"

// Process is a [Source] of gauges about memory and the garbage collector.
func Process(tell func(Metric)) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	for _, gauge := range [...]struct {
		name  string
		value uint64
	}{
		{"alloc", m.Alloc}, {"totalAlloc", m.TotalAlloc}, {"sys", m.Sys}, {"lookups", m.Lookups}, {"mallocs", m.Mallocs}, {"frees", m.Frees},
		{"heapAlloc", m.HeapAlloc}, {"heapSys", m.HeapSys}, {"heapIdle", m.HeapIdle}, {"heapInuse", m.HeapInuse},
		{"heapReleased", m.HeapReleased}, {"heapObjects", m.HeapObjects},
		{"nextGC", m.NextGC}, {"lastGC", m.LastGC}, {"pauseTotalNs", m.PauseTotalNs}, {"numGC", uint64(m.NumGC)},
		{"gcCPUPercent", uint64(m.GCCPUFraction * 100)}, {"numGoroutine", uint64(runtime.NumGoroutine())},
	} {
		tell(Metric{Name: "ratelimit.go." + gauge.name, Value: float64(gauge.value), Gauge: true})
	}
}
