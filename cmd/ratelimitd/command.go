package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/ratelimitd/ratelimitd/pkg/descriptors"
	"github.com/ratelimitd/ratelimitd/pkg/settings"
)

// newCommand returns the command line of the program.
func newCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "ratelimitd",
		Short:         "A global rate limit service for Envoy",
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       versionText(),
	}
	root.SetVersionTemplate("{{.Version}}")
	asReference := root.Flags().Bool("compat", false, "stand in the place of envoyproxy/ratelimit, whose environment is read; so does the program under the name ratelimit")
	root.RunE = func(cmd *cobra.Command, _ []string) error {
		if *asReference {
			return serveCompat(cmd.ErrOrStderr())
		}
		return cmd.Help()
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(serveCommand(), checkCommand(), versionCommand())
	return root
}

func serveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Answer rate limit requests until told to stop",
		Long: `Answer rate limit requests until told to stop.

Every setting can stand in the settings file, in the environment, or here; the
last one wins. With none at all the counts are kept in memory and the sample
policies are in force.

SIGTERM or SIGINT stops it without losing a call; a second one, at once. SIGHUP
has it read the policy files at once.`,
		// package settings parses them, to report all faults at once.
		DisableFlagParsing: true,
	}
	settings.AddFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		faults, help := settings.ParseFlags(cmd.Flags(), args)
		if asked, _ := cmd.Flags().GetBool("help"); help || asked {
			return cmd.Help()
		}
		s, err := settings.Load(settings.Source{Flags: cmd.Flags(), Faults: faults, CheckURL: checkRedisURL})
		if err != nil {
			return err
		}
		ctx, stop := stopSignals()
		defer stop()
		return (&Main{Settings: s, Notes: notRead(os.Environ()), LogTo: cmd.ErrOrStderr()}).Run(ctx)
	}
	return cmd
}

// stopSignals returns a context that ends with the first signal to stop; a
// second one ends the program at once. Only serve asks for it: the other
// commands have nothing to finish.
func stopSignals() (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

func checkCommand() *cobra.Command {
	var counting string
	var maxSize int64
	var asReference bool
	cmd := &cobra.Command{
		Use:   "check DIR | --compat",
		Short: "Check the policy files of a directory",
		Long: `Check the policy files of a directory: print every error and exit with 1, or
say what the files hold. It needs no settings and starts nothing.

With --compat, and without DIR, it checks the environment of envoyproxy/ratelimit
and the policies that this names, as they are at a start in its place.`,
		Args: func(_ *cobra.Command, args []string) error {
			if asReference && len(args) > 0 {
				return fmt.Errorf("check --compat takes the directory from RUNTIME_ROOT and RUNTIME_SUBDIRECTORY, not %q", args[0])
			}
			if !asReference && len(args) != 1 {
				return fmt.Errorf("check takes one directory, not %d", len(args))
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&counting, "counting", settings.CountingPrecise, "how domains that do not say are counted: precise or reference")
	cmd.Flags().Int64Var(&maxSize, "policies-max-size", descriptors.DefaultMaxSize, "the most bytes that all files may have together")
	cmd.Flags().BoolVar(&asReference, "compat", false, "check the environment of envoyproxy/ratelimit and its policies")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if asReference {
			return checkCompat(cmd.OutOrStdout(), os.Environ())
		}
		return check(cmd.OutOrStdout(), args[0], counting, maxSize)
	}
	return cmd
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := io.WriteString(cmd.OutOrStdout(), versionText())
			return err
		},
	}
}
