package statsd

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// However many values, limits and domains requests bring, and however long they are, no more than 20 MB are kept.
func TestMemoryIsBounded(t *testing.T) {
	const n, most = 100_000, 20 << 20
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	policy := "domain: d\ndescriptors:\n"
	for i := range 20 {
		policy += fmt.Sprintf("  - {key: k%d, detailed_metric: true, rate_limit: {unit: day, requests_per_unit: 9}}\n", i)
	}
	rules := compile(t, policy)
	tally := NewTally(Options{})
	e, err := NewExhibit(tally, ExhibitOptions{})
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(e)
	long := strings.Repeat("x", longestName-32)
	before, s := heap(), tally.Sheet(rules)
	for i := range n {
		ask(t, s, rules, "d", entriesOf(fmt.Sprintf("k%d=%s%d", i%20, long, i)))
		bring(t, s, rules, "d", entriesOf(fmt.Sprintf("o=%s%d", long, i)))
		tally.UnknownDomain(fmt.Appendf(nil, "%s%d", long, i), 1)
	}
	if _, err := registry.Gather(); err != nil {
		t.Fatal(err)
	}
	grown := heap() - before
	if grown > most {
		t.Errorf("%d KB more", grown>>10)
	}
	runtime.KeepAlive(registry)
	runtime.KeepAlive(s)
}
