package backend

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// scriptCall is one call of the script: asks of any number of requests whose
// keys one server holds.
type scriptCall struct {
	asks []algorithm.Ask
	out  []algorithm.Decision  // of each ask, once run
	to   []*algorithm.Decision // where they belong, for who has merged or split batches

	call algorithm.Call
	keys []bulk
	args []any
	cmd  once
	err  error // nil: out is decided, each decision for itself

	innocent bool // err says nothing of the server's health
}

// bulk is an argument of a command. A pointer to it is one that the client
// takes without allocating.
type bulk []byte

func (b *bulk) MarshalBinary() ([]byte, error) { return *b, nil }

// add adds an ask whose decision belongs elsewhere.
func (c *scriptCall) add(ask *algorithm.Ask, group int32, to *algorithm.Decision) {
	c.asks, c.to = append(c.asks, *ask), append(c.to, to)
	c.asks[len(c.asks)-1].Group = group
}

// deliver puts the decisions where they belong.
func (c *scriptCall) deliver() {
	for i, to := range c.to {
		*to = c.out[i]
	}
}

func (r *Redis) newCall() *scriptCall { return r.calls.Get().(*scriptCall) }

// free gives a call back for others to use. It keeps no reference to keys.
func (r *Redis) free(c *scriptCall) {
	if cap(c.asks) > 1024 {
		return
	}
	clear(c.asks)
	clear(c.keys)
	clear(c.args)
	clear(c.out)
	clear(c.to)
	c.asks, c.out, c.to, c.keys, c.args, c.cmd, c.err = c.asks[:0], c.out[:0], c.to[:0], c.keys[:0], c.args[:0], once{}, nil
	c.call.Reset(nil, 0, 0, slack)
	r.calls.Put(c)
}

// prepare encodes the asks, with calendar windows chosen by a clock.
func (c *scriptCall) prepare(clock int64) {
	c.call.Reset(c.asks, 0, clock, slack)
	c.out = append(c.out[:0], make([]algorithm.Decision, len(c.asks))...)
}

// command builds the command that runs the script: by its digest, or with its
// text, which also loads it.
func (c *scriptCall) command(ctx context.Context, sha string, withText bool) redis.Cmder {
	name, script := "evalsha", sha
	if withText {
		name, script = "eval", algorithm.Script
	}
	keys := c.call.Keys()
	c.keys = c.keys[:0]
	for _, key := range keys {
		c.keys = append(c.keys, key)
	}
	c.keys = append(c.keys, c.call.Args())
	c.args = append(c.args[:0], name, script, len(keys), keys[0]) // by the first key the client finds the server
	for i := 1; i < len(c.keys); i++ {
		c.args = append(c.args, &c.keys[i])
	}
	c.cmd = once{redis.NewStringCmd(ctx, c.args...)}
	c.cmd.SetFirstKeyPos(3)
	return c.cmd
}

// run runs the calls at the same time, each on the server that holds its keys,
// and fills their out. A breaker that is open refuses them.
func (r *Redis) run(ctx context.Context, b *breaker, calls []*scriptCall) {
	err := b.do(func() error {
		r.runNow(ctx, calls)
		return verdict(calls)
	})
	if err == nil {
		return
	}
	for _, c := range calls {
		c.out, c.err = append(c.out[:0], make([]algorithm.Decision, len(c.asks))...), err
		fail(c.out, err)
	}
}

func (r *Redis) runNow(ctx context.Context, calls []*scriptCall) {
	clock := time.Now().UnixMicro()
	for _, c := range calls {
		c.prepare(clock)
	}
	r.sendAll(ctx, calls)
	for _, c := range calls {
		if c.err == nil {
			r.askAgainByClock(ctx, c)
		}
	}
}

// How often a call is sent that Redis says it did not run, and the wait before
// the next time where Redis asks for one: a slot that is being moved.
const (
	maxSends  = 3
	firstWait = 2 * time.Millisecond
	maxWait   = 20 * time.Millisecond
)

// sendAll sends calls, and again those that Redis says it did not run, where
// that may help.
func (r *Redis) sendAll(ctx context.Context, calls []*scriptCall) {
	giveUpAt := time.Now().Add(r.timeout) // when the context has no deadline
	withText, wait := false, firstWait
	for sends := 1; ; sends++ {
		r.send(ctx, calls, withText)
		var again []*scriptCall
		pause := false
		for _, c := range calls {
			remedy := r.outcome(c)
			if remedy == giveUp {
				continue
			}
			again = append(again, c)
			pause = pause || remedy == waitABit
			if remedy == loadIt {
				withText = true
				r.metrics.scriptLoads.Inc()
			}
		}
		switch {
		case len(again) == 0:
			return
		case pause:
			if time.Now().After(giveUpAt) || !sleep(ctx, wait) {
				return
			}
			wait = min(2*wait, maxWait)
		case sends >= maxSends:
			return
		}
		calls = again
	}
}

// sleep waits, unless the context's deadline comes first: then it returns false
// at once.
func sleep(ctx context.Context, d time.Duration) bool {
	if end, ok := ctx.Deadline(); ok && time.Until(end) <= d {
		return false
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// send sends each call once: one by itself, several in one pipeline a server.
func (r *Redis) send(ctx context.Context, calls []*scriptCall, withText bool) {
	r.metrics.calls.Add(float64(len(calls)))
	for _, c := range calls {
		r.metrics.asks.Add(float64(len(c.asks)))
	}
	if len(calls) == 1 {
		_ = r.client.Process(ctx, calls[0].command(ctx, r.sha, withText)) // the command holds the error
		return
	}
	pipe := r.client.Pipeline()
	for _, c := range calls {
		_ = pipe.Process(ctx, c.command(ctx, r.sha, withText))
	}
	_, _ = pipe.Exec(ctx)
}

// outcome reads the reply to a call into its decisions and its err.
func (r *Redis) outcome(c *scriptCall) remedy {
	reply, err := c.cmd.Bytes()
	if err == nil {
		if err = c.call.Decode(reply, c.out); err == nil {
			c.err = nil
			return giveUp
		}
		err = fmt.Errorf("%w: %w", ErrLost, err)
		fail(c.out, err)
		c.err, c.innocent = err, true
		return giveUp
	}
	d := diagnose(err)
	fail(c.out, d.err)
	c.err, c.innocent = d.err, d.innocent
	if r.cluster != nil && d.remedy != loadIt {
		r.cluster.ReloadState(context.Background()) // the node may have been replaced
	}
	return d.remedy
}

// askAgainByClock asks once more for the requests whose calendar windows did
// not hold Redis' clock, with the windows that do. They were not charged.
func (r *Redis) askAgainByClock(ctx context.Context, c *scriptCall) {
	var again *scriptCall
	var clock int64
	for from, to := range groups(c.asks) {
		now, outside := clockOf(c.out[from:to])
		if !outside {
			continue
		}
		if again == nil {
			again, clock = r.newCall(), now
		}
		for i := from; i < to; i++ {
			again.add(&c.asks[i], c.asks[i].Group, &c.out[i])
		}
	}
	if again == nil {
		return
	}
	again.prepare(clock)
	r.sendAll(ctx, []*scriptCall{again})
	again.deliver()
	r.free(again)
}

// clockOf returns Redis' clock if the request was outside its calendar window.
func clockOf(out []algorithm.Decision) (now int64, outside bool) {
	for i := range out {
		var clock *algorithm.ClockError
		if out[i].Err != nil && errors.As(out[i].Err, &clock) {
			return clock.Now, true
		}
	}
	return 0, false
}
