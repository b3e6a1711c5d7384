package compat

import (
	"net/url"
	"strings"
	"time"

	"github.com/ratelimitd/ratelimitd/pkg/settings"
)

const (
	// knownOverBytes is about what one counter takes that is known to be over.
	knownOverBytes = 300

	// leastLocalCache is what a local cache has at least, as there.
	leastLocalCache = 512 << 10
)

// store translates what is said of the store.
func (e *environment) store(s *Settings, f *faults) {
	s.Store, s.StoreTimeout = settings.StoreRedis, longestWait
	s.KnownOverKeys = 0
	if e.localCache > 0 {
		s.KnownOverKeys = max(e.localCache, leastLocalCache) / knownOverBytes
	}
	switch strings.ToLower(e.backendType) {
	case "", "redis":
	case "memcache":
		e.memcached.settings(&s.Settings, e.keyPrefix, f)
		return
	default:
		f.add("BACKEND_TYPE", "%q is not one of redis, memcache", e.backendType)
	}
	e.main.settings("REDIS_", e, &s.Settings, f)
	if e.split {
		second := s.Settings
		e.perSecond.settings("REDIS_PERSECOND_", e, &second, f)
		s.PerSecond = &second
	}
}

// settings puts what is said of one Redis into settings.
func (r *redisEnvironment) settings(prefix string, e *environment, s *settings.Settings, f *faults) {
	s.RedisURL = settings.URL(r.location(prefix, f))
	s.RedisUsername, s.RedisPassword = login(r.auth)
	s.RedisSentinelUsername, s.RedisSentinelPassword = login(r.sentinelAuth)
	s.RedisPasswordFile, s.RedisSentinelPasswordFile, s.RedisPasswordFilesHaveUser = r.authFile, r.sentinelAuthFile, true
	for _, auth := range [...]struct{ name, text, file string }{
		{prefix + "AUTH", r.auth.Reveal(), r.authFile}, {prefix + "SENTINEL_AUTH", r.sentinelAuth.Reveal(), r.sentinelAuthFile},
	} {
		if auth.text != "" && auth.file != "" {
			f.add(auth.name+"_FILE", "and %s are two passwords; set one of them", auth.name)
		}
	}
	if r.tls {
		s.RedisTLSCAFile, s.RedisTLSCertFile, s.RedisTLSKeyFile, s.RedisTLSAnyName = e.redisCA, e.redisCert, e.redisKey, e.redisSkipHost
	}
	s.RedisPoolSize = r.poolSize
	s.RedisDialTimeout = min(max(r.timeout, time.Millisecond), time.Minute)
	if r.poolSize < 1 || r.poolSize > 10_000 {
		f.add(prefix+"POOL_SIZE", "%d is no number of connections; from 1 to 10000", r.poolSize)
	}
	if !strings.EqualFold(r.onEmpty, "WAIT") {
		f.add(prefix+"POOL_ON_EMPTY_BEHAVIOR", "%q is not WAIT, which is all that there is", r.onEmpty)
	}
}

// location writes where Redis is as ratelimitd's own setting does.
func (r *redisEnvironment) location(prefix string, f *faults) string {
	scheme := "redis"
	if r.tls {
		scheme = "rediss"
	}
	hosts := strings.Join(words(r.url), ",")
	switch strings.ToLower(r.kind) {
	case "single":
	case "cluster":
		return scheme + "+cluster://" + hosts
	case "sentinel":
		master, sentinels, found := strings.Cut(hosts, ",")
		if !found {
			f.add(prefix+"URL", "names no sentinels; write master,host:port,host:port")
		}
		return scheme + "+sentinel://" + sentinels + "/" + url.PathEscape(master)
	default:
		f.add(prefix+"TYPE", "%q is not one of single, sentinel, cluster", r.kind)
		return ""
	}
	switch {
	case strings.Contains(r.url, "://"):
		if rest, found := strings.CutPrefix(r.url, "redis://"); found && r.tls {
			return "rediss://" + rest
		}
		return r.url
	case r.socketType == "unix":
		return (&url.URL{Scheme: "unix", Path: r.url}).String()
	case r.socketType != "tcp":
		f.add(prefix+"SOCKET_TYPE", "%q is not one of tcp, unix", r.socketType)
	}
	return scheme + "://" + hosts
}

// login takes a password, or user:password.
func login(auth settings.Secret) (string, settings.Secret) {
	user, password, found := strings.Cut(auth.Reveal(), ":")
	if !found {
		return "", auth
	}
	return user, settings.Secret(password)
}
