package main

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
	"github.com/ratelimitd/ratelimitd/pkg/service"
)

// serveApart serves ratelimitd's own service as it would be without its
// transport and without merging: grpc-go, a goroutine for each call, and a
// script call for each. rest is Redis' address and the name of an algorithm.
func serveApart(address string, rest []string) error {
	if len(rest) != 2 {
		return errors.New("apart needs Redis' address and an algorithm")
	}
	rules, err := compile(rest[1])
	if err != nil {
		return err
	}
	client := redis.NewClient(&redis.Options{Addr: rest[0], Protocol: 2, MaxRetries: -1, PoolSize: 32, DisableIdentity: true})
	sha, err := client.ScriptLoad(context.Background(), algorithm.Script).Result()
	if err != nil {
		return err
	}
	store := &scriptPerCall{client: client, sha: sha, calls: sync.Pool{New: func() any { return new(algorithm.Call) }}}
	s, err := service.New(store, service.DefaultOptions(), nil)
	if err != nil {
		return err
	}
	s.SetRules(rules)
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	server := grpc.NewServer(s.ServerOptions()...)
	s.Register(server)
	return server.Serve(listener)
}

// scriptPerCall is a store that merges nothing.
type scriptPerCall struct {
	client *redis.Client
	sha    string
	calls  sync.Pool // of *algorithm.Call
}

// Decide implements [service.Decider].
func (s *scriptPerCall) Decide(ctx context.Context, asks []algorithm.Ask, out []algorithm.Decision) {
	call := s.calls.Get().(*algorithm.Call)
	defer s.calls.Put(call)
	call.Reset(asks, 0, time.Now().UnixMicro(), time.Second)
	args := []any{"evalsha", s.sha, len(call.Keys())}
	for _, key := range call.Keys() {
		args = append(args, key)
	}
	cmd := redis.NewStringCmd(ctx, append(args, call.Args())...)
	err := s.client.Process(ctx, cmd)
	if err == nil {
		var reply []byte
		if reply, err = cmd.Bytes(); err == nil {
			err = call.Decode(reply, out)
		}
	}
	for i := range out {
		if err != nil {
			out[i] = algorithm.Decision{Err: err}
		}
	}
}
