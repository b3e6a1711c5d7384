package main

import (
	"context"
	"errors"
	"time"
)

// starts are the times from the start of a process to its first answer.
type starts struct {
	Server string    `json:"server"`
	Millis []float64 `json:"ms"`
}

// measureStarts starts ratelimitd anew, asks until it answers, and ends it.
func (b *bench) measureStarts(ctx context.Context) ([]*starts, error) {
	progress("starting")
	all := []*starts{{Server: memoryServer}, {Server: redisServer}}
	for range b.options.rounds {
		for _, s := range all {
			took, err := b.firstAnswer(ctx, s.Server)
			if err != nil {
				return nil, err
			}
			s.Millis = append(s.Millis, took.Seconds()*1e3)
		}
	}
	return all, nil
}

func (b *bench) firstAnswer(ctx context.Context, store string) (time.Duration, error) {
	running := b.admin[store]
	defer func() { b.admin[store] = running }()
	began := time.Now()
	p, err := b.startRatelimitd(store)
	if err != nil {
		return 0, err
	}
	defer p.end()
	for {
		if err := p.listens(ctx); err != nil {
			return 0, err
		}
		a, err := drive(ctx, load{address: p.address, requests: encodeRequests(ample, 1, 1), count: 1, connections: 1, streams: 1})
		switch {
		case err == nil && a.ok == 1:
			return time.Since(began), nil
		case ctx.Err() != nil:
			return 0, ctx.Err()
		case time.Since(began) > startPatience:
			return 0, errors.Join(errors.New("ratelimitd does not answer"), err)
		}
		time.Sleep(time.Millisecond)
	}
}
