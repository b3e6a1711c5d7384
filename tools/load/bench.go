package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"
)

// The servers that are loaded.
const (
	frameFloorServer = "frame floor"
	grpcFloorServer  = "grpc-go floor"
	memoryServer     = "memory"
	redisServer      = "Redis"
	apartServer      = "grpc-go, a script call each"
)

// bench is everything that runs while it is measured. What is not loaded waits.
type bench struct {
	options options
	dir     string // for what the servers read; removed in the end
	policy  string // folder with the policy
	servers map[string]*process
	redis   *process
	admin   map[string]string // where ratelimitd's admin pages are, by server
}

// newBench starts all servers. Close it.
func newBench(ctx context.Context, o options) (*bench, error) {
	dir, err := os.MkdirTemp("", "ratelimitd-load")
	if err != nil {
		return nil, err
	}
	b := &bench{options: o, dir: dir, policy: filepath.Join(dir, "policy"), servers: map[string]*process{}, admin: map[string]string{}}
	if err := b.start(ctx); err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

func (b *bench) start(ctx context.Context) error {
	if err := os.Mkdir(b.policy, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(b.policy, "bench.yaml"), []byte(policy(b.options.algorithm)), 0o600); err != nil {
		return err
	}
	var err error
	if b.redis, err = b.startRedis(ctx); err != nil {
		return err
	}
	for name, start := range map[string]func() (*process, error){
		frameFloorServer: func() (*process, error) { return startRole("frame-floor") },
		grpcFloorServer:  func() (*process, error) { return startRole("grpc-floor") },
		apartServer:      func() (*process, error) { return startRole("apart", b.redis.address, b.options.algorithm) },
		memoryServer:     func() (*process, error) { return b.startRatelimitd(memoryServer) },
		redisServer:      func() (*process, error) { return b.startRatelimitd(redisServer) },
	} {
		p, err := start()
		if err != nil {
			return err
		}
		b.servers[name] = p
		if err := p.listens(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) close() {
	for _, p := range b.servers {
		p.end()
	}
	if b.redis != nil {
		b.redis.end()
	}
	_ = os.RemoveAll(b.dir)
}

// startRedis starts a Redis that writes nothing to disk.
func (b *bench) startRedis(ctx context.Context) (*process, error) {
	free, err := freeAddresses(1)
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(free[0])
	if err != nil {
		return nil, err
	}
	p, err := begin("redis-server", free[0], nil, "redis-server", "--bind", "127.0.0.1", "--port", port,
		"--dir", b.dir, "--save", "", "--appendonly", "no")
	if err != nil {
		return nil, err
	}
	if err := p.listens(ctx); err != nil {
		p.end()
		return nil, err
	}
	return p, nil
}

// startRatelimitd starts ratelimitd as it is without settings, but for where
// it listens, its policy and its store; and it waits longer for Redis, since a
// call that fails when the machine is busy with something else would be cheap.
func (b *bench) startRatelimitd(store string) (*process, error) {
	free, err := freeAddresses(3)
	if err != nil {
		return nil, err
	}
	environment := []string{
		"RATELIMITD_GRPC_ADDRESS=" + free[0], "RATELIMITD_HTTP_ADDRESS=" + free[1], "RATELIMITD_ADMIN_ADDRESS=" + free[2],
		"RATELIMITD_POLICIES=" + b.policy, "RATELIMITD_STORE=memory",
	}
	if store == redisServer {
		environment = append(environment, "RATELIMITD_STORE=redis", "RATELIMITD_REDIS_URL=redis://"+b.redis.address, "RATELIMITD_STORE_TIMEOUT=5s")
	}
	b.admin[store] = free[2]
	return begin("ratelimitd", free[0], environment, b.options.server, "serve")
}

// startRole starts this program as one of the servers to compare with.
func startRole(role string, rest ...string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	free, err := freeAddresses(1)
	if err != nil {
		return nil, err
	}
	return begin(role, free[0], nil, append([]string{self, role, free[0]}, rest...)...)
}

// sample is what one load cost.
type sample struct {
	Requests int     `json:"requests"`
	Offered  float64 `json:"offered_per_second,omitempty"` // of loads with a rate
	Rate     float64 `json:"per_second"`

	Server    float64 `json:"server_cpu_us"` // processor's time a request
	Redis     float64 `json:"redis_cpu_us"`
	Generator float64 `json:"generator_cpu_us"`

	P50  float64 `json:"p50_us"`
	P99  float64 `json:"p99_us"`
	P999 float64 `json:"p999_us"`

	ServerMiB float64 `json:"server_mib"` // resident after the load
	RedisMiB  float64 `json:"redis_mib"`

	Over    int    `json:"over_limit"`
	Failed  int    `json:"failed"`
	Failure string `json:"failure,omitempty"`
}

// together is the processor's time of server and Redis.
func (s sample) together() float64 { return s.Server + s.Redis }

// measure loads a server and tells what that cost it and Redis.
func (b *bench) measure(ctx context.Context, server string, l load) (sample, error) {
	p := b.servers[server]
	l.address = p.address
	before, err := b.times(p)
	if err != nil {
		return sample{}, err
	}
	a, err := drive(ctx, l)
	if err != nil {
		return sample{}, fmt.Errorf("%s: %w", server, err)
	}
	after, err := b.times(p)
	if err != nil {
		return sample{}, err
	}
	n := len(a.latencies)
	each := func(d time.Duration) float64 { return d.Seconds() * 1e6 / float64(n) }
	s := sample{
		Requests: n, Offered: l.rate, Rate: float64(n) / a.took.Seconds(),
		Server: each(after[0] - before[0]), Redis: each(after[1] - before[1]), Generator: each(a.generation),
		P50: quantile(a.latencies, .5), P99: quantile(a.latencies, .99), P999: quantile(a.latencies, .999),
		Over: a.over, Failed: a.failed, Failure: a.failure,
	}
	if s.ServerMiB, err = p.resident(); err == nil {
		s.RedisMiB, err = b.redis.resident()
	}
	return s, err
}

// times returns the processor's time of a server and of Redis.
func (b *bench) times(p *process) (both [2]time.Duration, err error) {
	if both[0], err = p.time(); err == nil {
		both[1], err = b.redis.time()
	}
	return both, err
}

// quantile returns a quantile of sorted durations, in microseconds.
func quantile(sorted []time.Duration, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))].Seconds() * 1e6
}
