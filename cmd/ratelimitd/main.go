// Command ratelimitd is a global rate limit service for Envoy.
//
// This folder only ties the packages together: main reads the command line,
// serve.go is the program in the order in which it happens, and the other
// files each turn settings into one part of it.
package main

import (
	"fmt"
	"os"

	// The time zones of calendar windows, for images that have none.
	_ "time/tzdata"
)

func main() {
	if err := newCommand().Execute(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
