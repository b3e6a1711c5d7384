package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
	"github.com/ratelimitd/ratelimitd/pkg/compat"
	"github.com/ratelimitd/ratelimitd/pkg/descriptors"
	"github.com/ratelimitd/ratelimitd/pkg/settings"
)

// check compiles the policy files of a directory and says what they hold. Its
// error holds every error in them.
func check(out io.Writer, dir, counting string, maxSize int64) error {
	how, err := countingOf(counting)
	if err != nil {
		return err
	}
	files, err := descriptors.ReadDir(dir, maxSize)
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("no policy files (*.yaml, *.yml) in %s", dir)
	}
	return compileAndTell(out, dir, files, descriptors.Options{Counting: how})
}

// checkCompat checks an environment of envoyproxy/ratelimit and the policy files
// that it names. It says what of it changes nothing.
func checkCompat(out io.Writer, environ []string) error {
	s, notes, err := compat.Load(environ)
	if err != nil {
		return err
	}
	for _, note := range notes {
		fmt.Fprintf(out, "%s changes nothing: %s\n", note.Name, note.Reason)
	}
	m := &Main{Settings: &s.Settings, Compat: s, log: slog.New(slog.DiscardHandler)}
	o := m.reloadOptions(nil, nil)
	switch {
	case s.XDSServer != "":
		_, err := fmt.Fprintf(out, "policies come from the control plane %s, which is not asked\n", s.XDSServer)
		return err
	case o.Dir == "":
		return errors.New("RUNTIME_SUBDIRECTORY is not set, so that no policies are read")
	}
	files, err := o.Choice.ReadDir(o.Dir, o.MaxSize)
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("no policy files in %s/%s", o.Dir, o.Choice.Within)
	}
	return compileAndTell(out, o.Dir, files, o.Compile)
}

// compileAndTell says what policy files hold, warnings first.
func compileAndTell(out io.Writer, dir string, files []descriptors.File, o descriptors.Options) error {
	rules, err := descriptors.Compile(files, o)
	if err != nil {
		return err
	}
	for _, warning := range rules.Warnings() {
		fmt.Fprintf(out, "warning: %v\n", warning)
	}
	fmt.Fprintf(out, "%s: files %d, domains %d, limits %d, revision %s\n",
		dir, len(files), len(rules.Domains()), len(rules.Limits()), rules.Revision())
	for _, domain := range rules.Domains() {
		fmt.Fprintf(out, "  %s: rules %d\n", domain.Name, len(domain.Rules()))
	}
	return nil
}

func countingOf(word string) (algorithm.Counting, error) {
	switch word {
	case settings.CountingPrecise:
		return algorithm.Precise, nil
	case settings.CountingReference:
		return algorithm.Reference, nil
	}
	return 0, fmt.Errorf("--counting: %q is not one of %s, %s", word, settings.CountingPrecise, settings.CountingReference)
}
