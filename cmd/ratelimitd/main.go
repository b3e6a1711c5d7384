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

// run does what the name of the program says, or else the command line.
func run(args []string) error {
	switch filepath.Base(args[0]) {
	case "ratelimit":
		return serveCompat(os.Stderr)
	case "ratelimit_config_check":
		return configCheck(os.Stdout, args[1:])
	case "ratelimit_client":
		ctx, stop := stopSignals()
		defer stop()
		return client(ctx, os.Stdout, args[1:])
	}
	return newCommand().Execute()
}

func main() {
	if err := run(os.Args); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
