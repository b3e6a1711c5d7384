package main

import (
	"cmp"
	"errors"
	"log/slog"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ratelimitd/ratelimitd/pkg/backend"
	"github.com/ratelimitd/ratelimitd/pkg/service"
	"github.com/ratelimitd/ratelimitd/pkg/settings"
	"github.com/ratelimitd/ratelimitd/pkg/statsd"
)

// store is where counts are kept, with all that stacks on it.
type store struct {
	decider service.Decider
	inline  bool         // it never waits for anything
	system  string       // its name among OpenTelemetry's, unless inline
	ready   func() error // nil: it answers
	close   func()
	sources []statsd.Source
}

// openStore opens the store of the settings. It does not fail for a store that
// does not answer yet. asReference remembers what is over as the local cache of
// envoyproxy/ratelimit does.
func openStore(s *settings.Settings, asReference bool, log *slog.Logger, registry prometheus.Registerer) (*store, error) {
	policy := backend.FailureOptions{Timeout: s.StoreTimeout, Registerer: registry}
	shed := backend.SheddingOptions{Budget: s.StoreTimeout, Registerer: registry}
	if s.Store == settings.StoreMemory {
		memory := backend.NewMemory(backend.MemoryOptions{
			MaxKeys:    s.MemoryMaxKeys,
			MaxBytes:   int64(s.MemoryMaxSize),
			Registerer: registry,
			Log:        log,
		})
		shedding := backend.WithShedding(memory, shed)
		return &store{
			inline:  true,
			decider: backend.WithFailurePolicy(shedding, policy),
			ready:   func() error { return nil },
			close: func() {
				shedding.Close()
				memory.Close()
			},
		}, nil
	}
	redis, err := openRedis(s, log, registry)
	if err != nil {
		return nil, err
	}
	shedding := backend.WithShedding(redis, shed)
	sources := []statsd.Source{poolSource("ratelimit.redis_pool", redis.Connections)}
	var decider service.Decider = shedding
	if s.RedisKnownOverKeys > 0 {
		known := backend.WithKnownOver(shedding, backend.KnownOverOptions{
			MaxKeys: s.RedisKnownOverKeys, Reference: asReference, Registerer: registry,
		})
		decider, sources = known, append(sources, localCacheSource(known))
	}
	replicas := backend.JoinReplicas(redis, backend.ReplicasOptions{Unmet: s.Replicas, Registerer: registry, Log: log})
	local := backend.NewLocal(decider, backend.LocalOptions{
		MaxBytes:   int64(s.LocalMaxSize),
		Replicas:   replicas.Count,
		Registerer: registry,
		Log:        log,
	})
	policy.Local = local
	return &store{
		decider: backend.WithFailurePolicy(decider, policy),
		system:  "redis",
		ready:   redis.Ready,
		close: func() {
			local.Close()
			replicas.Close()
			shedding.Close()
			_ = redis.Close()
		},
		sources: sources,
	}, nil
}

// openRedis opens the store in Redis, with nothing on it.
func openRedis(s *settings.Settings, log *slog.Logger, registry prometheus.Registerer) (*backend.Redis, error) {
	server, err := redisServer(s)
	if err != nil {
		return nil, err
	}
	return backend.NewRedis(backend.RedisOptions{
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
	})
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
