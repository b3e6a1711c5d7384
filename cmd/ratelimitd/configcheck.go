package main

import (
	"errors"
	"flag"
	"fmt"
	"io"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
	"github.com/ratelimitd/ratelimitd/pkg/descriptors"
)

// configCheck is the program of envoyproxy/ratelimit that checks a directory of
// policies, with its flags and its last lines. It needs no settings.
func configCheck(out io.Writer, args []string) error {
	flags := flag.NewFlagSet("ratelimit_config_check", flag.ContinueOnError)
	flags.SetOutput(out)
	dir := flags.String("config_dir", "", "the directory of the policies")
	merge := flags.Bool("merge_domain_configs", false, "whether several files may have policies of one domain")
	if err := flags.Parse(args); err != nil {
		return helped(err)
	}
	if *dir == "" {
		return errors.New("error loading rate limit configs: -config_dir is needed")
	}
	files, err := descriptors.Choice{Any: true, Dotted: true}.ReadDir(*dir, descriptors.DefaultMaxSize)
	if err != nil {
		return fmt.Errorf("error loading rate limit configs: %w", err)
	}
	rules, err := descriptors.Compile(files, descriptors.Options{Counting: algorithm.Reference, Lenient: true, OneFileEach: !*merge})
	if err != nil {
		return fmt.Errorf("error loading rate limit configs: %w", err)
	}
	for _, warning := range rules.Warnings() {
		fmt.Fprintf(out, "warning: %v\n", warning)
	}
	_, err = fmt.Fprintln(out, "all rate limit configs ok")
	return err
}

// helped is no error where the help was asked for.
func helped(err error) error {
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	return err
}
