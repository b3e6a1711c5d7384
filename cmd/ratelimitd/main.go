// Command ratelimitd is a global rate limit service for Envoy.
//
// This folder only ties the packages together: main reads the command line,
// serve.go is the program in the order in which it happens, and the other
// files each turn settings into one part of it.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	// The time zones of calendar windows, for images that have none.
	_ "time/tzdata"
)

// run does what the name of the program says, or its first argument, which is
// such a name where a compose file names a command of the image. Otherwise it
// does what the command line says.
func run(args []string) error {
	for i := range min(2, len(args)) {
		if program := named(args[i]); program != nil {
			return program(args[i+1:])
		}
	}
	return newCommand().Execute()
}

// named is the program of envoyproxy/ratelimit that has this name; nil: none.
func named(path string) func(args []string) error {
	switch filepath.Base(path) {
	case "ratelimit":
		return ratelimit
	case "ratelimit_config_check":
		return func(args []string) error { return configCheck(os.Stdout, args) }
	case "ratelimit_client":
		return func(args []string) error {
			ctx, stop := stopSignals()
			defer stop()
			return client(ctx, os.Stdout, args)
		}
	}
	return nil
}

func main() {
	if err := run(os.Args); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
