package backend

import (
	"context"
	"strings"

	"github.com/redis/go-redis/v9"
)

// discretion is a hook of go-redis that keeps from errors what a server has been
// told: one that does not know a command repeats its arguments, and those of AUTH
// are passwords.
type discretion struct{}

func (discretion) DialHook(next redis.DialHook) redis.DialHook { return next }

func (discretion) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := discreet(next(ctx, cmd))
		if err != nil {
			cmd.SetErr(err)
		}
		return err
	}
}

func (discretion) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := discreet(next(ctx, cmds))
		for _, cmd := range cmds {
			if own := cmd.Err(); own != nil {
				cmd.SetErr(discreet(own))
			}
		}
		return err
	}
}

// repeats is what stands before arguments in a server's error.
const repeats = ", with args beginning with:"

// discreet returns an error without the arguments that it repeats.
func discreet(err error) error {
	if err == nil || !strings.Contains(err.Error(), repeats) {
		return err
	}
	return &discreetError{err}
}

type discreetError struct{ cause error }

// Error implements error.
func (e *discreetError) Error() string {
	text, _, _ := strings.Cut(e.cause.Error(), repeats)
	return text
}

func (e *discreetError) Unwrap() error { return e.cause }
