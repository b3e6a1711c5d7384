package statsd

import (
	"testing"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// BenchmarkCount is what a decision costs: under a name of the policy, and under one with the request's values.
func BenchmarkCount(b *testing.B) {
	rules := compile(b, namesPolicy)
	for name, entries := range map[string]string{"fixed": "plain=v", "detailed": "det=some-value"} {
		b.Run(name, func(b *testing.B) {
			s, e := NewTally(Options{}).Sheet(rules), entriesOf(entries)
			l := rules.Domain([]byte("sn")).Match(e).Limits[0]
			a, d := &algorithm.Ask{Limit: l.Limit, Hits: 1}, &algorithm.Decision{Outcome: algorithm.Allowed, After: 1}
			b.ReportAllocs()
			for b.Loop() {
				s.Count(l, e, a, d)
			}
		})
	}
}
