// Package tracing sends spans of requests over OTLP, as OpenTelemetry's
// variables say.
//
// Whether a request is traced is known when it begins: its headers say so
// (parent.go), or else chance does. One that is not costs a look at that and no
// memory. Of the others there are at most as many as may wait to be sent
// (tracer.go); what is more is left out before anything is done for it, so
// that a collector which is slow or away costs little. Spans are made when a
// request has ended (span.go), and are sent, in their own time, by OpenTelemetry's
// own exporters (exporter.go).
package tracing
