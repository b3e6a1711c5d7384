package backend

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ratelimitd/ratelimitd/internal/programtest"
	"github.com/ratelimitd/ratelimitd/internal/redistest"
	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// put writes a file in one step, as a mounted Secret changes.
func put(t *testing.T, path, text string) {
	t.Helper()
	if err := errors.Join(os.WriteFile(path+".new", []byte(text), 0o600), os.Rename(path+".new", path)); err != nil {
		t.Fatal(err)
	}
}

// What a file holds, step by step, as whom one logs in, and how many lines the
// log has by then.
func TestLoginFile(t *testing.T) {
	const absent = "absent"
	for name, file := range map[string]struct {
		withUser bool
		steps    [][3]string
	}{
		"passwords": {false, [][3]string{
			{"a\n", "default a", "0"}, {"b", "default b", "1"}, {"", "default b", "2"}, {absent, "default b", "2"}, {"\n", "default b", "2"},
			{"b", "default b", "3"}, {absent, "default b", "4"}, {"c:d\r\n", "default c:d", "5"}, {" e ", "default  e ", "6"},
		}},
		"with users": {true, [][3]string{
			{"u:a\n", "u a", "0"}, {"v:b:c", "v b:c", "1"}, {"d", "default d", "2"}, {absent, "default d", "3"}, {":e", " e", "4"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "password")
			put(t, path, file.steps[0][0])
			var log programtest.Journal
			f, err := openLoginFile(path, "default", file.withUser, slog.New(slog.NewTextHandler(&log, nil)))
			if err != nil {
				t.Fatal(err)
			}
			for i, step := range file.steps {
				if step[0] == absent {
					_ = os.Remove(path)
				} else {
					put(t, path, step[0])
				}
				user, password, err := f.login(t.Context())
				got := [3]string{step[0], user + " " + password, fmt.Sprint(strings.Count(log.String(), "\n"))}
				if got != step || err != nil {
					t.Errorf("step %d: %q, %v; want %q", i, got, err, step)
				}
			}
			if text := log.String(); strings.Contains(text, "u:a") || strings.Contains(text, "c:d") {
				t.Errorf("the log shows a password:\n%s", text)
			}
		})
	}
}

// A program that is told of a file without a password does not start.
func TestNoLoginFile(t *testing.T) {
	for path, want := range map[string]string{
		"/nowhere/password": "redis: read the password: open /nowhere/password: no such file or directory",
		"/dev/null":         "redis: read the password: /dev/null: the file is empty",
	} {
		for _, files := range []RedisLoginFiles{{Redis: path}, {Sentinel: path}} {
			server, err := ParseRedisURL("redis+sentinel://127.0.0.1:1/master")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := NewRedis(RedisOptions{Server: server, LoginFiles: files}); err == nil || err.Error() != want {
				t.Errorf("%+v: %v, want %s", files, err, want)
			}
		}
	}
}

// What is no file with a password keeps nobody waiting: a named pipe, a directory,
// a file without an end.
func TestStrangeLoginFiles(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	open := filepath.Join(dir, "open")
	if err := syscall.Mkfifo(open, 0o600); err != nil {
		t.Fatal(err)
	}
	writer, err := os.OpenFile(open, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	for path, want := range map[string]string{
		pipe: "the file is empty", open: "i/o timeout", dir: "is a directory", "/dev/zero": "the file has more than 65536 bytes",
	} {
		read := make(chan error, 1)
		go func() {
			_, err := readLogin(path, loginPatience)
			read <- err
		}()
		select {
		case err := <-read:
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %s", path, err, want)
			}
		case <-time.After(5 * time.Second):
			t.Errorf("%s: is waited for", path)
		}
	}
}

// deployment is some shape of Redis whose passwords can change.
type deployment struct {
	url      string
	setLogin func(user, password, sentinelPassword string)
	failover func() // nil: there is no other master
}

// TestPasswordsChange: Redis is given another password, by requirepass or in its
// access list, then another user, and ends all connections each time. The store
// goes on with what the files hold by then, without a restart, and no count is
// lost.
func TestPasswordsChange(t *testing.T) {
	first := redistest.Options{Password: "first", SentinelPassword: "watch-first"}
	for name, open := range map[string]func(t *testing.T) deployment{
		"single": func(t *testing.T) deployment {
			s := redistest.Start(t, first)
			return deployment{url: s.URL(), setLogin: func(user, password, _ string) { s.SetLogin(t, user, password) }}
		},
		"sentinel": func(t *testing.T) deployment {
			s := redistest.StartSentinel(t, first)
			return deployment{
				url:      s.URL(),
				setLogin: func(user, password, sentinel string) { s.SetLogin(t, user, password, sentinel) },
				failover: func() { s.Failover(t) },
			}
		},
		"cluster": func(t *testing.T) deployment {
			c := redistest.StartCluster(t, first)
			return deployment{url: c.URL(), setLogin: func(user, password, _ string) { c.SetLogin(t, user, password) }}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			passwordsChange(t, open(t))
		})
	}
}

func passwordsChange(t *testing.T, d deployment) {
	dir := t.TempDir()
	files := RedisLoginFiles{Redis: filepath.Join(dir, "redis"), Sentinel: filepath.Join(dir, "sentinel"), WithUser: true}
	put(t, files.Redis, "first\n")
	put(t, files.Sentinel, "watch-first\n")
	r, _ := openRedis(t, d.url, func(o *RedisOptions) {
		o.LoginFiles = files
		o.Server.Password, o.Server.SentinelPassword = "not this", "nor this"
	})
	awaitReady(t, r)
	l := limitOf(t, "fixed_window", 1_000_000, aLongTime)
	var allowed, unsure atomic.Int64
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for ctx.Err() == nil {
				d := ask1(t, r, string(key(t, fmt.Sprint(i), "key")), l, 1)
				switch {
				case d.Outcome == algorithm.Allowed:
					allowed.Add(1)
				case !errors.Is(d.Err, ErrUnavailable):
					unsure.Add(1) // it may have been charged
				}
			}
		})
	}
	goesOn := func(when string) {
		t.Helper()
		before, began := allowed.Load(), time.Now()
		await(t, when, func() bool { return allowed.Load() > before+500 })
		t.Logf("500 decisions %v after: %s", time.Since(began), when)
	}
	goesOn("at first")
	var surely int64 // so many were allowed before those that must be counted
	for i, user := range []string{"", "limiter", "limiter", "other"} {
		password, sentinel := fmt.Sprint("second:", i), fmt.Sprint("watch-", i)
		late := i == 2 // the files follow when connections have been refused
		if late {
			d.setLogin(user, password, sentinel)
			await(t, "connections are refused", func() bool { return r.Ready() != nil })
		}
		put(t, files.Redis, user+":"+password+"\n")
		put(t, files.Sentinel, "default:"+sentinel)
		if !late {
			d.setLogin(user, password, sentinel)
		}
		goesOn(fmt.Sprintf("user %q", user))
		if d.failover != nil && i%2 == 0 {
			d.failover()
			surely = allowed.Load() // what the old master took last may be lost
			goesOn("another master")
		}
	}
	stop()
	wg.Wait()
	var counted int64
	for i := range 4 {
		counted += ask1(t, r, string(key(t, fmt.Sprint(i), "key")), l, 0).After
	}
	if counted < allowed.Load()-surely || counted > allowed.Load()+unsure.Load() {
		t.Errorf("%d counted; %d were allowed, and %d may be", counted, allowed.Load(), unsure.Load())
	}
	t.Logf("%d allowed, %d unsure", allowed.Load(), unsure.Load())
}
