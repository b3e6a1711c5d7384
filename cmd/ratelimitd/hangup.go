package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/ratelimitd/ratelimitd/pkg/reload"
)

// hangups returns the SIGHUPs that come from now on. They stay harmless until the
// program has ended, or one that comes during the stop would end it.
func hangups() <-chan os.Signal {
	come := make(chan os.Signal, 1)
	signal.Notify(come, syscall.SIGHUP)
	return come
}

// reloadOn reads the policy files at once when a signal comes, as people expect
// of SIGHUP. It returns when ctx ends.
func reloadOn(ctx context.Context, come <-chan os.Signal, policies *reload.Loader) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-come:
			policies.Load()
		}
	}
}
