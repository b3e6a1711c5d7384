package main

import (
	"embed"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
	"github.com/ratelimitd/ratelimitd/pkg/compat"
	"github.com/ratelimitd/ratelimitd/pkg/descriptors"
	"github.com/ratelimitd/ratelimitd/pkg/reload"
	"github.com/ratelimitd/ratelimitd/pkg/service"
	"github.com/ratelimitd/ratelimitd/pkg/web"
)

// compatHelp is what the program says of itself in the place of
// envoyproxy/ratelimit.
const compatHelp = `ratelimitd in the place of envoyproxy/ratelimit. It has no flags: it reads that
program's environment, and policies from
RUNTIME_ROOT/RUNTIME_SUBDIRECTORY/RUNTIME_APPDIRECTORY.

  ratelimitd check --compat   checks both and starts nothing
  ratelimitd --help           tells the rest
`

// ratelimit is the program of that name. It leaves arguments alone, as that one
// does, but for a question.
func ratelimit(args []string) error {
	if len(args) > 0 && slices.Contains([]string{"-h", "-help", "--help", "help"}, args[0]) {
		_, err := io.WriteString(os.Stdout, compatHelp)
		return err
	}
	return serveCompat(os.Stderr)
}

// serveCompat answers in the place of envoyproxy/ratelimit, with its
// environment.
func serveCompat(logTo io.Writer) error {
	ctx, stop := stopSignals()
	defer stop()
	s, notes, err := compat.Load(os.Environ())
	if err != nil {
		return err
	}
	return (&Main{Settings: &s.Settings, Compat: s, Notes: notes, LogTo: logTo}).Run(ctx)
}

// notRead are the variables of an environment by which envoyproxy/ratelimit is
// known, and nothing else: who sets them expects that they are read.
func notRead(environ []string) []compat.Note {
	var notes []compat.Note
	for _, variable := range environ {
		switch name, _, _ := strings.Cut(variable, "="); name {
		case "RUNTIME_ROOT", "RUNTIME_SUBDIRECTORY", "REDIS_SOCKET_TYPE", "BACKEND_TYPE":
			notes = append(notes, compat.Note{
				Name:   name,
				Reason: "it is envoyproxy/ratelimit's, whose variables are read under the name ratelimit or with --compat, and not by ratelimitd serve",
			})
		}
	}
	return notes
}

// tellNotes says once what was set in vain.
func (m *Main) tellNotes() {
	for _, note := range m.Notes {
		m.log.Warn("a setting changes nothing", "name", note.Name, "reason", note.Reason)
	}
}

// logAttributes has lines of JSON named as envoyproxy/ratelimit names them.
func logAttributes(_ []string, a slog.Attr) slog.Attr {
	switch a.Key {
	case slog.TimeKey:
		a.Key = "@timestamp"
	case slog.MessageKey:
		a.Key = "@message"
	case slog.LevelKey:
		a.Value = slog.StringValue(strings.ToLower(a.Value.String()))
	}
	return a
}

// compatCompile are the options for policies that were written for
// envoyproxy/ratelimit.
func compatCompile(s *compat.Settings, o descriptors.Options) descriptors.Options {
	if s.OnlyOver {
		o.Counting = algorithm.OnlyOver
	}
	o.Lenient, o.OneFileEach, o.KeyPrefix = true, !s.MergeDomains, s.KeyPrefix
	return o
}

// compatReload are the options for its directories.
func compatReload(s *compat.Settings, o reload.Options) reload.Options {
	o.Choice = descriptors.Choice{Any: true, Dotted: s.Files.Dotted, Within: s.Files.Within}
	o.MayBeEmpty, o.MayBeMissing = true, s.Files.Optional
	if s.Files.Dir == "" && s.XDSServer == "" {
		o.Files = embed.FS{} // no policies, rather than the samples
	}
	return o
}

// compatService are the options for its answers.
func compatService(s *compat.Settings, o service.Options) service.Options {
	o.Headers = service.Headers{Named: s.Headers, Last: true}
	o.Terse, o.AnyDescriptor, o.WindowReset = true, true, true
	o.Shadow, o.Quota = s.Shadow, s.Quota
	return o
}

// compatAdmin are the options for its debug pages, beside those that there are.
func compatAdmin(s *compat.Settings, o web.AdminOptions) web.AdminOptions {
	o.Secured = o.Secured || s.DebugOpen
	o.Further = web.ReferencePages(o.Policies, commandLine(os.Args))
	o.Elsewhere = web.List
	return o
}

// commandLine shows what the program was started with, without the values of
// flags, of which each could be a secret.
func commandLine(args []string) []string {
	shown := []string{args[0]}
	for _, arg := range args[1:] {
		if name, _, _ := strings.Cut(arg, "="); strings.HasPrefix(name, "-") {
			shown = append(shown, name)
		}
	}
	return shown
}

// compatValues are the variables as the admin pages show them.
func compatValues(s *compat.Settings) []web.Setting {
	values := s.Values()
	shown := make([]web.Setting, len(values))
	for i, v := range values {
		shown[i] = web.Setting{Name: v.Name, Value: v.Text, Origin: v.Origin}
	}
	return shown
}
