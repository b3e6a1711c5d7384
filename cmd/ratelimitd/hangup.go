package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/ratelimitd/ratelimitd/pkg/reload"
)

// reloadOnHangup reads the policy files at once when SIGHUP comes, as people
// expect of a server. Changes are found without it too; but it must not end the
// program, as it would by default.
func reloadOnHangup(ctx context.Context, policies *reload.Loader) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangups:
			policies.Load()
		}
	}
}
