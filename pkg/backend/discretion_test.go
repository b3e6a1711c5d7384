package backend

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/ratelimitd/ratelimitd/internal/programtest"
	"github.com/ratelimitd/ratelimitd/internal/redistest"
)

// A server that does not know AUTH repeats the password in its error: it is in no
// line of the log, in no reason for which nothing is ready or decided.
func TestPasswordsAreNotRepeated(t *testing.T) {
	server := redistest.Start(t, redistest.Options{Config: []string{`rename-command AUTH ""`, `rename-command HELLO ""`}})
	for _, where := range []string{
		"redis://user:s3cret@", "redis+cluster://user:s3cret@",
		"redis+sentinel://user:s3cret@%s/main?sentinel_username=watcher&sentinel_password=s3cret",
	} {
		scheme, _, _ := strings.Cut(where, ":")
		t.Run(scheme, func(t *testing.T) {
			var log programtest.Journal
			if !strings.Contains(where, "%s") {
				where += "%s"
			}
			r, _ := openRedis(t, strings.Replace(where, "%s", server.Address, 1), func(o *RedisOptions) {
				o.Log = slog.New(slog.NewTextHandler(&log, nil))
			})
			await(t, "the log says why", func() bool { return strings.Contains(log.String(), "unknown command") })
			d := ask1(t, r, "{a}k", limitOf(t, "fixed_window", 5, aLongTime), 1)
			ping := r.Ping(t.Context())
			for _, text := range []string{log.String(), r.Ready().Error(), d.Err.Error(), ping.Error()} {
				if strings.Contains(text, "s3cret") || !strings.Contains(text, "unknown command") {
					t.Errorf("%s", text)
				}
			}
		})
	}
}
