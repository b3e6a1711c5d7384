package tracing

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
)

// discreet leaves out of what OpenTelemetry logs the values of variables that it
// could not read. Headers and addresses of collectors hold secrets.
type discreet struct{ slog.Handler }

// Handle implements [slog.Handler].
func (d discreet) Handle(ctx context.Context, r slog.Record) error {
	said := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		switch err, isErr := a.Value.Any().(error); {
		case a.Key == "input" || a.Key == "value":
			return true
		case isErr:
			said.AddAttrs(slog.String(a.Key, withoutURL(err)))
		default:
			said.AddAttrs(a)
		}
		return true
	})
	return d.Handler.Handle(ctx, said)
}

// WithAttrs implements [slog.Handler].
func (d discreet) WithAttrs(all []slog.Attr) slog.Handler { return discreet{d.Handler.WithAttrs(all)} }

// WithGroup implements [slog.Handler].
func (d discreet) WithGroup(name string) slog.Handler { return discreet{d.Handler.WithGroup(name)} }

// withoutURL is the text of an error, of one about an address only why.
func withoutURL(err error) string {
	if about, ok := errors.AsType[*url.Error](err); ok {
		return about.Err.Error()
	}
	return err.Error()
}
