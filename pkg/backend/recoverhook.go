package backend

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// recoverHook makes an error of what panics in the client, which takes lengths in
// replies at their word: a server that lies about one must not end the process.
type recoverHook struct{}

func (recoverHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (recoverHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) (err error) {
		defer func() {
			if p := recover(); p != nil {
				err = panicked(p)
				cmd.SetErr(err)
			}
		}()
		return next(ctx, cmd)
	}
}

func (recoverHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) (err error) {
		defer func() {
			if p := recover(); p != nil {
				err = panicked(p)
				for _, cmd := range cmds {
					cmd.SetErr(err)
				}
			}
		}()
		return next(ctx, cmds)
	}
}

func panicked(p any) error { return fmt.Errorf("the reply cannot be read: %v", p) }
