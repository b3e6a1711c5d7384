package main

import (
	"fmt"
	"io"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
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
	rules, err := descriptors.Compile(files, descriptors.Options{Counting: how})
	if err != nil {
		return err
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
