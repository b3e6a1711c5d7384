//go:build !race

package tracing

import (
	"testing"
	"time"
)

// A request that is not traced allocates nothing.
func TestUntracedDoesNotAllocate(t *testing.T) {
	tracer, _ := open(t, Options{Ratio: 0}, "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1")
	full, _ := open(t, Options{Ratio: 1}, "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", "OTEL_BSP_MAX_QUEUE_SIZE=1")
	at := time.Now()
	for name, parent := range map[string]string{"none": "", "unsampled": unsampledParent, "malformed": "00-x", "sampled": sampledParent} {
		header := headers(parent, "")
		for which, tr := range map[string]*Tracer{"off": nil, "on": tracer, "full": full} {
			if n := testing.AllocsPerRun(1000, func() {
				p := ParentOf(header)
				if (!p.Sampled() || tr != tracer) && tr.Begin(&p, at) != nil {
					t.Fatal("traced")
				}
			}); n != 0 {
				t.Errorf("%s, %s: %v allocations", which, name, n)
			}
		}
	}
}
