package main

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ratelimitd/ratelimitd/pkg/backend"
	"github.com/ratelimitd/ratelimitd/pkg/service"
	"github.com/ratelimitd/ratelimitd/pkg/settings"
	"github.com/ratelimitd/ratelimitd/pkg/statsd"
)

// openRedis opens the store in Redis, or in two of them.
func (m *Main) openRedis(registry prometheus.Registerer) (*store, error) {
	options, err := redisOptions(m.Settings, m.log, registry)
	if err != nil {
		return nil, err
	}
	perSecond := m.perSecond()
	if perSecond == nil {
		redis, err := backend.NewRedis(options)
		if err != nil {
			return nil, err
		}
		return m.sharedRedis(redis, redis, registry), nil
	}
	second, err := redisOptions(perSecond, m.log, registry)
	if err != nil {
		return nil, fmt.Errorf("limits per second: %w", err)
	}
	both, err := backend.NewPerSecond(second, options)
	if err != nil {
		return nil, err
	}
	shared := m.sharedRedis(both, both.Other(), registry)
	shared.sources = append(shared.sources, poolSource("ratelimit.redis_per_second_pool", both.PerSecond().Connections))
	return shared, nil
}

// redisStore is one Redis, or two.
type redisStore interface {
	service.Decider
	Ready() error
	Close() error
}

// sharedRedis is a store in which replicas count each other. main is the Redis
// that has their keys.
func (m *Main) sharedRedis(redis redisStore, main *backend.Redis, registry prometheus.Registerer) *store {
	replicas := backend.JoinReplicas(main, backend.ReplicasOptions{Unmet: m.Settings.Replicas, Registerer: registry, Log: m.log})
	return &store{
		decider:  redis,
		system:   "redis",
		ready:    redis.Ready,
		replicas: replicas.Count,
		sources:  []statsd.Source{poolSource("ratelimit.redis_pool", main.Connections)},
		close: func() {
			replicas.Close()
			_ = redis.Close()
		},
	}
}

func redisOptions(s *settings.Settings, log *slog.Logger, registry prometheus.Registerer) (backend.RedisOptions, error) {
	server, err := redisServer(s)
	return backend.RedisOptions{
		Server: server,
		TLS: backend.TLS{
			Files:      filesOf(s, "redis_tls_", "ca_file", s.RedisTLSCAFile, s.RedisTLSCertFile, s.RedisTLSKeyFile),
			ServerName: s.RedisTLSServerName,
			AnyName:    s.RedisTLSAnyName,
			SkipVerify: s.RedisTLSSkipVerify,
		},
		LoginFiles: backend.RedisLoginFiles{
			Redis:    s.RedisPasswordFile,
			Sentinel: s.RedisSentinelPasswordFile,
			WithUser: s.RedisPasswordFilesHaveUser,
		},
		DialTimeout: s.RedisDialTimeout,
		Budget:      s.StoreTimeout,
		ReadTimeout: max(backend.DefaultReadTimeout, s.StoreTimeout),
		PoolSize:    s.RedisPoolSize,
		Registerer:  registry,
		Log:         log,
	}, err
}

// redisServer says where Redis is and as whom to log in. The settings of their
// own go before what the URL says.
func redisServer(s *settings.Settings) (backend.RedisServer, error) {
	server, err := backend.ParseRedisURL(s.RedisURL.Reveal())
	server.Username = cmp.Or(s.RedisUsername, server.Username)
	server.Password = cmp.Or(s.RedisPassword.Reveal(), server.Password)
	server.SentinelUsername = cmp.Or(s.RedisSentinelUsername, server.SentinelUsername)
	server.SentinelPassword = cmp.Or(s.RedisSentinelPassword.Reveal(), server.SentinelPassword)
	return server, err
}

// checkRedisURL is for package settings.
func checkRedisURL(text string) error {
	if _, err := backend.ParseRedisURL(text); err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "redis URL: "))
	}
	return nil
}
