package tracing

import (
	"context"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

const (
	sampledParent   = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	unsampledParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
)

// headers returns what looks up the values of traceparent and tracestate.
func headers(parent, state string) func(string) string {
	return propagation.MapCarrier{"traceparent": parent, "tracestate": state}.Get
}

func TestParentOf(t *testing.T) {
	const id = "0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331"
	for text, want := range map[string]string{
		"":                             "none",
		sampledParent:                  "sampled",
		unsampledParent:                "unsampled",
		"00-" + id + "-03":             "sampled", // and its ID is by chance
		"00-" + id + "-02":             "unsampled",
		"00-" + id + "-04":             "none", // a flag that version 00 has not
		"00-" + id + "-0":              "none",
		"00-" + id + "-01-":            "none",
		"00-" + id + "-01-more":        "none",
		"00-" + id + "-01 ":            "none",
		"01-" + id + "-01":             "sampled",
		"01-" + id + "-01-more":        "sampled",
		"fe-" + id + "-ff-":            "sampled",
		"fe-" + id + "-fe":             "unsampled",
		"01-" + id + "-01more":         "none",
		"ff-" + id + "-01":             "none",
		"FE-" + id + "-01":             "none",
		"0-" + id + "-01":              "none",
		"00-" + id + "_01":             "none",
		"00_" + id + "-01":             "none",
		strings.ToUpper(sampledParent): "none",
		"00-00000000000000000000000000000000-b7ad6b7169203331-01": "none",
		"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01": "none",
		"00-0af7651916cd43dd8448eb211c80319g-b7ad6b7169203331-01": "none",
		sampledParent + "," + sampledParent:                       "none", // two headers
		strings.Repeat(sampledParent, 10_000):                     "none",
		strings.Repeat("\xff", 55):                                "none",
	} {
		p := ParentOf(headers(text, ""))
		got := "none"
		switch {
		case p.Sampled():
			got = "sampled"
		case p.Known():
			got = "unsampled"
		}
		if got != want {
			t.Errorf("%.100q: %s, want %s", text, got, want)
		}
	}
}

// A tracestate goes with its parent, if it is as it should be and not too long.
func TestTraceState(t *testing.T) {
	for state, want := range map[string]string{
		"":                              "",
		"a=1,b=2":                       "a=1,b=2",
		"a=1, b=2":                      "a=1,b=2",
		"a=1,a=2":                       "",
		"=":                             "",
		"a=" + strings.Repeat("x", 200): "a=" + strings.Repeat("x", 200),
		strings.Repeat("a=1,", 200):     "",
	} {
		p := ParentOf(headers(sampledParent, state))
		if got := p.span.TraceState().String(); got != want || !p.Sampled() {
			t.Errorf("%.100q: %q, want %q", state, got, want)
		}
	}
}

// FuzzParent compares with OpenTelemetry's own reader.
func FuzzParent(f *testing.F) {
	for _, s := range []string{"", sampledParent, unsampledParent, sampledParent + "-", "ff" + sampledParent[2:], "cc" + sampledParent[2:] + "-x", strings.ToUpper(sampledParent)} {
		f.Add(s, "a=1,b=2")
		f.Add(s, "")
	}
	f.Fuzz(func(t *testing.T, parent, state string) {
		got := ParentOf(headers(parent, state))
		want := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": parent, "tracestate": state}))
		if strings.HasPrefix(parent, "00-") && len(parent) == traceparentLength+1 {
			want = trace.SpanContext{} // it takes one with a - at the end, which version 00 has not
		}
		if len(state) > maxTraceState {
			want = want.WithTraceState(trace.TraceState{})
		}
		if got.Known() != want.IsValid() || got.Sampled() != want.IsSampled() {
			t.Fatalf("%q: known %v, sampled %v; want %v, %v", parent, got.Known(), got.Sampled(), want.IsValid(), want.IsSampled())
		}
		if got.Sampled() && !got.span.Equal(want) {
			t.Fatalf("%q, %q: %v, want %v", parent, state, got.span, want)
		}
	})
}

func BenchmarkParentOf(b *testing.B) {
	for name, parent := range map[string]string{"none": "", "unsampled": unsampledParent, "sampled": sampledParent} {
		header := headers(parent, "")
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p := ParentOf(header)
				_ = p.Known()
			}
		})
	}
}
