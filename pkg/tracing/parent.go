package tracing

import (
	"go.opentelemetry.io/otel/trace"
)

// Parent is the span that a request is part of, as its headers say. The zero
// value is none.
type Parent struct {
	span      trace.SpanContext // valid only if it is sampled
	unsampled bool              // there is one, and nobody keeps it
}

// Unsampled returns a parent that nobody keeps. They are all alike.
func Unsampled() Parent { return Parent{unsampled: true} }

// Known reports whether there is a parent, and Sampled whether it is kept.
func (p *Parent) Known() bool { return p.unsampled || p.Sampled() }

// Sampled: see [Parent.Known].
func (p *Parent) Sampled() bool { return p.span.IsSampled() }

// maxTraceState bounds the tracestate that is kept with a span. W3C wants no
// less.
const maxTraceState = 512

// ParentOf reads the headers traceparent and tracestate as W3C's recommendation
// Trace Context has them. header returns the value of one, with commas between
// them if there are several, "" if there is none; names are in lower case. Where
// traceparent is not as it should be there is no parent. It allocates only for a
// parent that is sampled and has a tracestate.
func ParentOf(header func(name string) string) Parent {
	config, ok := parse(header("traceparent"))
	switch {
	case !ok:
		return Parent{}
	case !config.TraceFlags.IsSampled():
		return Unsampled()
	}
	if state := header("tracestate"); state != "" && len(state) <= maxTraceState {
		config.TraceState, _ = trace.ParseTraceState(state) // a bad one is none
	}
	return Parent{span: trace.NewSpanContext(config)}
}

// The parts of a traceparent, as in
// 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01: version, trace, span
// and flags.
const (
	traceAt           = 3
	spanAt            = traceAt + 32 + 1
	flagsAt           = spanAt + 16 + 1
	traceparentLength = flagsAt + 2
)

// parse parses a traceparent. Of a later version it reads what all versions
// have.
func parse(s string) (c trace.SpanContextConfig, ok bool) {
	if len(s) < traceparentLength || s[traceAt-1] != '-' || s[spanAt-1] != '-' || s[flagsAt-1] != '-' {
		return c, false
	}
	var version, flags [1]byte
	if !unhex(version[:], s) || !unhex(c.TraceID[:], s[traceAt:]) || !unhex(c.SpanID[:], s[spanAt:]) || !unhex(flags[:], s[flagsAt:]) {
		return c, false
	}
	const known = trace.FlagsSampled | trace.FlagsRandom
	c.TraceFlags, c.Remote = trace.TraceFlags(flags[0])&known, true
	switch {
	case !c.TraceID.IsValid() || !c.SpanID.IsValid():
		return c, false
	case version[0] == 0:
		return c, len(s) == traceparentLength && trace.TraceFlags(flags[0]) == c.TraceFlags
	}
	return c, version[0] != 0xff && (len(s) == traceparentLength || s[traceparentLength] == '-')
}

// unhex decodes the beginning of a text in lower case.
func unhex(to []byte, s string) bool {
	s = s[:2*len(to)]
	var wrong byte
	for i := range to {
		high, low := nibbles[s[2*i]], nibbles[s[2*i+1]]
		to[i] = high<<4 | low&0xf
		wrong |= high | low
	}
	return wrong&0xf0 == 0
}

// nibbles are the values of digits, and 255 for what is none.
var nibbles = func() (all [256]byte) {
	for c := range all {
		all[c] = 0xff
	}
	for value, c := range "0123456789abcdef" {
		all[c] = byte(value)
	}
	return all
}()
