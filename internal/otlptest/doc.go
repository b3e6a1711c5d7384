// Package otlptest starts collectors of traces for tests.
package otlptest
