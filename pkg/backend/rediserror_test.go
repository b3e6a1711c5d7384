package backend

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ratelimitd/ratelimitd/internal/programtest"
	"github.com/ratelimitd/ratelimitd/internal/redistest"
	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// backInTime is how long after the cause of an error has gone all must be as
// before, with room for a busy machine.
const backInTime = 2*time.Second + 250*time.Millisecond

// wantRefusal asks until the store is refused with certain words, and then goes
// on until its breaker is open. It returns how many asks were allowed before.
func wantRefusal(t *testing.T, d decider, l *algorithm.Limit, words string) (allowed int64) {
	t.Helper()
	refused := 0
	var last algorithm.Decision
	await(t, "the breaker is open after "+words, func() bool {
		last = ask1(t, d, "k", l, 1)
		switch {
		case last.Outcome == algorithm.Allowed && refused == 0:
			allowed++
			return false
		case last.Outcome == algorithm.Undecided && errors.Is(last.Err, ErrUnavailable) && strings.Contains(last.Err.Error(), words):
			refused++
		case last.Outcome != algorithm.Undecided || !errors.Is(last.Err, ErrLost) || refused > 0: // the connection may have been cut
			t.Fatalf("%v %v; want undecided, … %s", last.Outcome, last.Err, words)
		}
		return strings.Contains(last.Err.Error(), "circuit breaker")
	})
	if refused < tripAfter {
		t.Errorf("the breaker opened after %d refusals", refused)
	}
	return allowed
}

// wantBack asks until the store decides again, within the time promised, and
// wants a key to stand where what was allowed has brought it: nothing that was
// refused has counted, and nothing twice.
func wantBack(t *testing.T, d decider, l *algorithm.Limit, allowed int64) {
	t.Helper()
	began := time.Now()
	await(t, "the store decides", func() bool { return ask1(t, d, "k", l, 1).Outcome == algorithm.Allowed })
	if took := time.Since(began); took > backInTime {
		t.Errorf("normal after %v", took)
	}
	if got := ask1(t, d, "k", l, 0); got.After != allowed+1 {
		t.Errorf("key stands at %d, want %d", got.After, allowed+1)
	}
}

// Each row brings a real Redis into a state in which it refuses, and out of it.
// The refusals are no denials, say what is wrong, and do not outlast the cause.
func TestRedisRefuses(t *testing.T) {
	t.Parallel() // it waits for most of its time
	background := func(t *testing.T, s *redistest.Server, command ...any) {
		client := s.Client()
		done := make(chan struct{})
		go func() { defer close(done); client.Do(context.Background(), command...) }()
		t.Cleanup(func() { _ = client.Close(); <-done })
	}
	var dir string
	for name, row := range map[string]struct {
		config []string
		plain  bool // the store does not log in
		cause  func(t *testing.T, s *redistest.Server)
		words  string
		cure   func(t *testing.T, s *redistest.Server)
	}{
		"READONLY": {
			cause: func(t *testing.T, s *redistest.Server) { s.Do(t, "replicaof", "127.0.0.1", programtest.FreePort(t)) },
			words: "READONLY You can't write against a read only replica",
			cure:  func(t *testing.T, s *redistest.Server) { s.Do(t, "replicaof", "no", "one") },
		},
		"MASTERDOWN": {
			config: []string{"replica-serve-stale-data no"},
			cause:  func(t *testing.T, s *redistest.Server) { s.Do(t, "replicaof", "127.0.0.1", programtest.FreePort(t)) },
			words:  "MASTERDOWN Link with MASTER is down",
			cure:   func(t *testing.T, s *redistest.Server) { s.Do(t, "replicaof", "no", "one") },
		},
		"LOADING": {
			config: []string{"enable-debug-command yes", "key-load-delay 1000", "loading-process-events-interval-bytes 1024"},
			cause: func(t *testing.T, s *redistest.Server) {
				s.Do(t, "debug", "populate", 3000)
				background(t, s, "debug", "reload")
			},
			words: "LOADING Redis is loading the dataset in memory",
			cure: func(t *testing.T, s *redistest.Server) {
				client := s.Client()
				defer client.Close()
				await(t, "it is loaded", func() bool { return client.Ping(t.Context()).Err() == nil })
			},
		},
		"OOM": {
			cause: func(t *testing.T, s *redistest.Server) { s.Do(t, "config", "set", "maxmemory", 1) },
			words: "OOM command not allowed",
			cure:  func(t *testing.T, s *redistest.Server) { s.Do(t, "config", "set", "maxmemory", 0) },
		},
		"BUSY": {
			config: []string{"lua-time-limit 5"},
			cause:  func(t *testing.T, s *redistest.Server) { background(t, s, "eval", "while true do end", 0) },
			words:  "BUSY Redis is busy running a script",
			cure:   func(t *testing.T, s *redistest.Server) { s.Do(t, "script", "kill") },
		},
		"MISCONF": {
			config: []string{"save 3600 1000000", "enable-protected-configs yes"},
			cause: func(t *testing.T, s *redistest.Server) {
				dir = s.Do(t, "config", "get", "dir").([]any)[1].(string)
				gone := filepath.Join(t.TempDir(), "gone")
				if err := os.Mkdir(gone, 0o700); err != nil {
					t.Fatal(err)
				}
				s.Do(t, "config", "set", "dir", gone)
				if err := os.Remove(gone); err != nil {
					t.Fatal(err)
				}
				s.Do(t, "bgsave")
			},
			words: "MISCONF",
			cure: func(t *testing.T, s *redistest.Server) {
				s.Do(t, "config", "set", "dir", dir)
				s.Do(t, "save")
			},
		},
		"NOREPLICAS": {
			cause: func(t *testing.T, s *redistest.Server) { s.Do(t, "config", "set", "min-replicas-to-write", 1) },
			words: "NOREPLICAS Not enough good replicas to write",
			cure:  func(t *testing.T, s *redistest.Server) { s.Do(t, "config", "set", "min-replicas-to-write", 0) },
		},
		"NOPERM": {
			cause: func(t *testing.T, s *redistest.Server) { s.Do(t, "acl", "setuser", "app", "-evalsha", "-eval") },
			words: "NOPERM",
			cure:  func(t *testing.T, s *redistest.Server) { s.Do(t, "acl", "setuser", "app", "+evalsha", "+eval") },
		},
		"NOPERM in the script": {
			cause: func(t *testing.T, s *redistest.Server) { s.Do(t, "acl", "setuser", "app", "-setrange", "-set") },
			words: "the user needs EVALSHA",
			cure:  func(t *testing.T, s *redistest.Server) { s.Do(t, "acl", "setuser", "app", "+setrange", "+set") },
		},
		"WRONGPASS": {
			cause: func(t *testing.T, s *redistest.Server) {
				s.Do(t, "acl", "setuser", "app", "resetpass", ">other")
				s.Do(t, "client", "kill", "user", "app")
			},
			words: "WRONGPASS invalid username-password pair or user is disabled",
			cure:  func(t *testing.T, s *redistest.Server) { s.Do(t, "acl", "setuser", "app", ">secret") },
		},
		"the user is gone": {
			cause: func(t *testing.T, s *redistest.Server) { s.Do(t, "acl", "deluser", "app") },
			words: "WRONGPASS",
			cure: func(t *testing.T, s *redistest.Server) {
				s.Do(t, "acl", "setuser", "app", "on", ">secret", "~*", "+@all")
			},
		},
		"NOAUTH": {
			plain: true,
			cause: func(t *testing.T, s *redistest.Server) {
				s.Do(t, "config", "set", "requirepass", "secret")
				s.Do(t, "client", "kill", "type", "normal") // but not who asks for it
			},
			words: "NOAUTH Authentication required. (a password is needed)",
			cure:  func(t *testing.T, s *redistest.Server) { s.Do(t, "config", "set", "requirepass", "") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := redistest.Start(t, redistest.Options{Config: append(row.config, "user app on >secret ~* +@all")})
			r, _ := openRedis(t, s.URL(), func(o *RedisOptions) {
				if !row.plain {
					o.Server.Username, o.Server.Password = "app", "secret"
				}
			})
			l := limitOf(t, "fixed_window", 1_000_000, aLongTime)
			await(t, "the store decides", func() bool { return ask1(t, r, "k", l, 1).Outcome == algorithm.Allowed })
			row.cause(t, s)
			allowed := 1 + wantRefusal(t, r, l, row.words)
			row.cure(t, s)
			wantBack(t, r, l, allowed)
		})
	}
}

// A name comes to stand for another server, after the one behind it has become
// a replica: connections are dropped, those that lay idle too, and soon all go to
// the new master.
func TestRedisReadOnlyAndMoved(t *testing.T) {
	old, master := redistest.Start(t, redistest.Options{}), redistest.Start(t, redistest.Options{})
	relay := redistest.StartRelay(t, old)
	r, _ := openRedis(t, "redis://"+relay.Address, nil)
	l := limitOf(t, "fixed_window", 1_000_000, aLongTime)
	await(t, "the store decides", func() bool { return ask1(t, r, "k", l, 1).Outcome == algorithm.Allowed })
	client := r.client.(*redis.Client)
	var idle []*redis.Conn
	for range 10 { // as many connections as a burst leaves behind
		conn := client.Conn()
		if err := conn.Ping(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		idle = append(idle, conn)
	}
	for _, conn := range idle {
		_ = conn.Close()
	}
	old.Do(t, "replicaof", "127.0.0.1", master.Port)
	wantRefusal(t, r, l, "READONLY")
	relay.Point(master)
	began := time.Now()
	await(t, "the store decides", func() bool { return ask1(t, r, "other", l, 1).Outcome == algorithm.Allowed })
	if took := time.Since(began); took > backInTime {
		t.Errorf("normal after %v", took)
	}
	await(t, "the breaker closes", func() bool { ask1(t, r, "other", l, 0); return r.breakersShut() == 0 })
	for range 20 {
		if d := ask1(t, r, "k", l, 1); d.Outcome != algorithm.Allowed {
			t.Errorf("afterwards: %v %v", d.Outcome, d.Err)
		}
	}
	if got := master.Do(t, "exists", "k"); got != int64(1) {
		t.Error("the new master does not have the key")
	}
}

// What cannot work from the start says so.
func TestRedisThatWillNeverDo(t *testing.T) {
	with := func(options redistest.Options, change func(*RedisOptions)) decider {
		r, _ := openRedis(t, redistest.Start(t, options).URL(), change)
		return r
	}
	l := limitOf(t, "fixed_window", 5, aLongTime)
	for words, d := range map[string]decider{
		"WRONGPASS":             with(redistest.Options{Password: "secret"}, func(o *RedisOptions) { o.Server.Password = "wrong" }),
		"NOAUTH":                with(redistest.Options{Password: "secret"}, func(o *RedisOptions) { o.Server.Password = "" }),
		"DB index":              with(redistest.Options{}, func(o *RedisOptions) { o.Server.DB = 99 }),
		"unknown command 'eval": with(redistest.Options{Config: []string{`rename-command EVALSHA ""`, `rename-command EVAL ""`}}, nil),
	} {
		d := ask1(t, d, "the key", l, 1)
		if d.Outcome != algorithm.Undecided || !errors.Is(d.Err, ErrUnavailable) || !strings.Contains(d.Err.Error(), words) || strings.Contains(d.Err.Error(), "the key") {
			t.Errorf("%v %v; want undecided, … %s", d.Outcome, d.Err, words)
		}
	}
}

// A user without SCRIPT does: the text goes along instead.
func TestRedisUserWithoutScript(t *testing.T) {
	s := redistest.Start(t, redistest.Options{Config: []string{"user app on >secret ~* +@all -script"}})
	r, _ := openRedis(t, s.URL(), func(o *RedisOptions) { o.Server.Username, o.Server.Password = "app", "secret" })
	if d := ask1(t, r, "k", limitOf(t, "fixed_window", 5, aLongTime), 1); d.Outcome != algorithm.Allowed {
		t.Errorf("%v %v", d.Outcome, d.Err)
	}
	awaitReady(t, r)
}

// Each error that Redis can reply with: what its decisions say, how often the
// call is sent, and whether the server is to blame. A server that replies it to
// everything stands for those into which no real one can be brought.
func TestRedisErrorReplies(t *testing.T) {
	l := limitOf(t, "fixed_window", 5, aLongTime)
	for _, row := range []struct {
		reply, want string
		kind        error
		calls       int
		innocent    bool
	}{
		{"NOSCRIPT No matching script. Please use EVAL.", "=", ErrUnavailable, 3, true},
		{"READONLY You can't write against a read only replica.", "= (this server is a replica)", ErrUnavailable, 3, false},
		{"ERR Error running script (call to f_1): @user_script:9: @user_script: 9: -READONLY You can't write against a read only replica.",
			"= (this server is a replica)", ErrUnavailable, 3, false},
		{"LOADING Redis is loading the dataset in memory", "=", ErrUnavailable, 1, false},
		{"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", "=", ErrUnavailable, 1, false},
		{"CLUSTERDOWN The cluster is down", "=", ErrUnavailable, 1, false},
		{"CLUSTERDOWN Hash slot not served", "= (no node has the slot)", ErrUnavailable, 1, true},
		{"MOVED 1 10.0.0.1:1", "= (the Cluster's nodes do not agree who owns a slot)", ErrUnavailable, 1, true},
		{"ASK 1 10.0.0.1:1", "= (the Cluster's nodes do not agree who owns a slot)", ErrUnavailable, 1, true},
		{"OOM command not allowed when used memory > 'maxmemory'.", "= (maxmemory is reached)", ErrUnavailable, 1, false},
		{"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.", "= (another script runs too long)", ErrUnavailable, 1, false},
		{"UNKILLABLE Sorry the script already executed write commands against the dataset.", "= (another script runs too long)", ErrUnavailable, 1, false},
		{"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.", "=", ErrUnavailable, 1, false},
		{"NOREPLICAS Not enough good replicas to write.", "=", ErrUnavailable, 1, false},
		{"NOAUTH Authentication required.", "= (a password is needed)", ErrUnavailable, 1, false},
		{"WRONGPASS invalid username-password pair or user is disabled.", "=", ErrUnavailable, 1, false},
		{"NOPERM this user has no permissions to run the 'evalsha' command", "= (" + rights + ")", ErrUnavailable, 1, false},
		{"ERR max number of clients reached", "=", ErrUnavailable, 1, false},
		{"ERR AUTH <password> called without any password configured for the default user.", "= (no password is set there)", ErrUnavailable, 1, false},
		{"ERR Client sent AUTH, but no password is set", "= (no password is set there)", ErrUnavailable, 1, false},
		{"DENIED Redis is running in protected mode", "=", ErrUnavailable, 1, false},
		{"ERR unknown command 'evalsha', with args beginning with: 'sha' '1' 'the key'", "ERR unknown command 'evalsha' (" + rights + ")", ErrUnavailable, 1, false},
		{"WRONGTYPE Operation against a key holding the wrong kind of value", "=", ErrLost, 1, true},
		{"ERR something nobody has seen yet", "=", ErrLost, 1, true},
	} {
		var calls atomic.Int64
		address := redistest.StartFake(t, func(command []string) string {
			switch command[0] {
			case "hello":
				return "-ERR unknown command\r\n"
			case "evalsha", "eval":
				calls.Add(1)
				return "-" + row.reply + "\r\n"
			default:
				return "+OK\r\n"
			}
		})
		r, _ := openRedis(t, "redis://"+address, nil)
		d := ask1(t, r, "the key", l, 1)
		if got := int(calls.Load()); got != row.calls {
			t.Errorf("%s: sent %d times, want %d", row.reply, got, row.calls)
		}
		want := row.kind.Error() + ": redis: " + strings.Replace(row.want, "=", row.reply, 1)
		if d.Outcome != algorithm.Undecided || !errors.Is(d.Err, row.kind) || d.Err.Error() != want {
			t.Errorf("%v %v;\nwant %s", d.Outcome, d.Err, want)
		}
		for range 2 * tripAfter {
			ask1(t, r, "the key", l, 1)
		}
		if shut := r.breakersShut() == 1; shut == row.innocent {
			t.Errorf("%s: the breaker is open: %v", row.reply, shut)
		}
	}
}
