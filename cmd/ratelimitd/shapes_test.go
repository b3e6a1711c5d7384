package main

import (
	"fmt"
	"path/filepath"
	"testing"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/ratelimitd/ratelimitd/internal/redistest"
	"github.com/ratelimitd/ratelimitd/pkg/settings"
)

// TestEveryShapeOfRedis is reached with the settings that are for it.
func TestEveryShapeOfRedis(t *testing.T) {
	file := func(t *testing.T, text string) string {
		t.Helper()
		path := filepath.Join(t.TempDir(), "password")
		write(t, path, text)
		return path
	}
	trust := func(s *settings.Settings, files *redistest.Certificates) {
		s.RedisTLSCAFile, s.RedisTLSCertFile, s.RedisTLSKeyFile = files.CA, files.ClientCert, files.ClientKey
	}
	for name, build := range map[string]func(t *testing.T) (url string, change func(*settings.Settings)){
		"a user and a password": func(t *testing.T) (string, func(*settings.Settings)) {
			s := redistest.Start(t, redistest.Options{User: "limiter", Password: "hunter2"})
			return "redis://not:this@" + s.Address + "/1", func(s *settings.Settings) { s.RedisUsername, s.RedisPassword = "limiter", "hunter2" }
		},
		"a socket": func(t *testing.T) (string, func(*settings.Settings)) {
			return redistest.Start(t, redistest.Options{Unix: true}).URL(), func(*settings.Settings) {}
		},
		"a certificate for any name": func(t *testing.T) (string, func(*settings.Settings)) {
			s := redistest.Start(t, redistest.Options{TLS: true, Config: []string{"bind 127.0.0.1 127.0.0.2"}})
			files := s.Certificates
			return fmt.Sprintf("rediss://127.0.0.2:%d", s.Port), func(s *settings.Settings) {
				trust(s, files)
				s.RedisTLSAnyName = true
			}
		},
		"sentinel over TLS, and files": func(t *testing.T) (string, func(*settings.Settings)) {
			watch := redistest.StartSentinel(t, redistest.Options{TLS: true, User: "limiter", Password: "hunter2", SentinelPassword: "watch"})
			redis, sentinel := file(t, "limiter:hunter2\n"), file(t, "watch\n")
			return "rediss+sentinel://" + watch.Sentinel.Address + "/" + redistest.MasterName, func(s *settings.Settings) {
				trust(s, watch.Sentinel.Certificates)
				s.RedisPasswordFile, s.RedisSentinelPasswordFile, s.RedisPasswordFilesHaveUser = redis, sentinel, true
			}
		},
		"a Cluster over TLS, and a file": func(t *testing.T) (string, func(*settings.Settings)) {
			c := redistest.StartCluster(t, redistest.Options{TLS: true, Password: "hunter2"})
			path := file(t, "hunter2")
			return "rediss+cluster://" + c.Addresses()[0], func(s *settings.Settings) {
				trust(s, c.Masters[0].Certificates)
				s.RedisPasswordFile = path
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, change := build(t)
			p := start(t, withRedis(url, settings.ReadyWithStore), change)
			eventually(t, "ready", func() bool {
				code, _ := page(t, "GET", p.HTTP.String()+"/healthcheck", "")
				return code == 200
			})
			reply, err := p.client(t).ShouldRateLimit(t.Context(), request("login", "one_time_password", "alice"))
			if err != nil || reply.GetOverallCode() != rlsv3.RateLimitResponse_OK || reply.GetStatuses()[0].GetLimitRemaining() != 4 {
				t.Errorf("%v, %v", reply, err)
			}
		})
	}
}
