package main

import (
	"io"
	"log/slog"

	"github.com/ratelimitd/ratelimitd/pkg/settings"
)

// newLog returns the program's log. The level can be changed later. asReference
// names the fields of JSON as envoyproxy/ratelimit does.
func newLog(to io.Writer, s *settings.Settings, asReference bool, level *slog.LevelVar) *slog.Logger {
	var first slog.Level
	if first.UnmarshalText([]byte(s.LogLevel)) == nil {
		level.Set(first)
	}
	options := &slog.HandlerOptions{Level: level}
	if s.LogFormat == settings.LogJSON {
		if asReference {
			options.ReplaceAttr = logAttributes
		}
		return slog.New(slog.NewJSONHandler(to, options))
	}
	return slog.New(slog.NewTextHandler(to, options))
}
