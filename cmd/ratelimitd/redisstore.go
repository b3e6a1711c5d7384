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

// redisStore is the store in Redis, with nothing on it.
type redisStore struct {
	decider interface {
		service.Decider
		Ready() error
		Close() error
	}
	main      *backend.Redis // of limits that are not per second, at least
	perSecond *backend.Redis // nil: there is none of its own
}

// sources tell of the connections.
func (r *redisStore) sources() []statsd.Source {
	sources := []statsd.Source{poolSource("ratelimit.redis_pool", r.main.Connections)}
	if r.perSecond != nil {
		sources = append(sources, poolSource("ratelimit.redis_per_second_pool", r.perSecond.Connections))
	}
	return sources
}

func openRedis(s, perSecond *settings.Settings, log *slog.Logger, registry prometheus.Registerer) (redisStore, error) {
	options, err := redisOptions(s, log, registry)
	if err != nil {
		return redisStore{}, err
	}
	if perSecond == nil {
		redis, err := backend.NewRedis(options)
		return redisStore{decider: redis, main: redis}, err
	}
	second, err := redisOptions(perSecond, log, registry)
	if err != nil {
		return redisStore{}, fmt.Errorf("limits per second: %w", err)
	}
	both, err := backend.NewPerSecond(second, options)
	if err != nil {
		return redisStore{}, err
	}
	return redisStore{decider: both, main: both.Other(), perSecond: both.PerSecond()}, nil
}

func redisOptions(s *settings.Settings, log *slog.Logger, registry prometheus.Registerer) (backend.RedisOptions, error) {
	server, err := redisServer(s)
	return backend.RedisOptions{
		Server: server,
		TLS: backend.RedisTLS{
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
