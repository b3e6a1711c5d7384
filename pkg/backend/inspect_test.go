package backend

import (
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ratelimitd/ratelimitd/internal/programtest"
	"github.com/ratelimitd/ratelimitd/internal/redistest"
)

// Rows are looks at a clock, a second apart: how far it is ahead, and how long
// the answer took.
func TestClockIsSeen(t *testing.T) {
	const ms, s = time.Millisecond, time.Second
	type look struct{ ahead, took time.Duration }
	for name, row := range map[string]struct {
		looks []look
		jumps int
		want  string // messages, in short
	}{
		"right":                        {[]look{{0, ms}, {0, ms}, {0, ms}}, 0, ""},
		"a little off":                 {[]look{{3 * s, ms}, {3 * s, ms}, {-ms, ms}}, 1, "jumped -3.001s"},
		"slewed":                       {[]look{{0, ms}, {100 * ms, ms}, {300 * ms, ms}, {700 * ms, ms}}, 0, ""},
		"forward and back":             {[]look{{0, ms}, {2 * s, ms}, {2 * s, ms}, {0, ms}}, 2, "jumped 2s, jumped -2s"},
		"a day off from the start":     {[]look{{24 * time.Hour, ms}, {24 * time.Hour, ms}}, 0, "far 24h0m0s"},
		"jumps far and comes back":     {[]look{{0, ms}, {-time.Minute, ms}, {-time.Minute, ms}, {0, ms}}, 2, "jumped -1m0s, far -1m0s, jumped 1m0s, near"},
		"slow answers are no jumps":    {[]look{{0, ms}, {600 * ms, s}, {0, ms}}, 0, ""},
		"slow answers hide no hour":    {[]look{{0, ms}, {time.Hour, s}}, 1, "jumped 1h0m0s, far 1h0m0s"},
		"at the edge, and just beyond": {[]look{{0, 0}, {clockJump, 0}, {2*clockJump + 1, 0}}, 1, "jumped 500ms"},
	} {
		var log programtest.Journal
		jumps := prometheus.NewCounter(prometheus.CounterOpts{Name: "jumps_total", Help: "Jumps."})
		reg := prometheus.NewRegistry()
		reg.MustRegister(jumps)
		var c clock
		now := time.Now()
		for _, look := range row.looks {
			now = now.Add(time.Second)
			c.see(now, now.Add(look.took), now.Add(look.took/2+look.ahead).Round(0), jumps, slog.New(slog.NewTextHandler(&log, nil)))
		}
		if got := inShort(log.String()); got != row.want {
			t.Errorf("%s: %s, want %s\n%s", name, got, row.want, log.String())
		}
		wantMetric(t, reg, "jumps_total", float64(row.jumps))
	}
}

// inShort are the messages about clocks of a log, in few words.
func inShort(log string) string {
	var words []string
	for line := range strings.Lines(log) {
		line = strings.TrimSpace(line)
		switch {
		case strings.Contains(line, "has jumped"):
			words = append(words, "jumped "+line[strings.Index(line, "by=")+3:])
		case strings.Contains(line, "is not that of this machine"):
			words = append(words, "far "+line[strings.Index(line, "ahead=")+6:])
		case strings.Contains(line, "again"):
			words = append(words, "near")
		default:
			words = append(words, line)
		}
	}
	return strings.Join(words, ", ")
}

// The clock of a Redis jumps while the store runs, and back.
func TestRedisClockIsWatched(t *testing.T) {
	var ahead atomic.Int64
	address := redistest.StartFake(t, func(command []string) string {
		switch command[0] {
		case "script":
			return "*1\r\n:1\r\n"
		case "time":
			now := time.Now().Add(time.Duration(ahead.Load()))
			s, us := fmt.Sprint(now.Unix()), fmt.Sprint(now.Nanosecond()/1000)
			return fmt.Sprintf("*2\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", len(s), s, len(us), us)
		default:
			return "-ERR unknown command\r\n" // INFO is forbidden here
		}
	})
	var log programtest.Journal
	r, reg := openRedis(t, "redis://"+address, func(o *RedisOptions) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	awaitReady(t, r)
	wantMetric(t, reg, "ratelimitd_redis_clock_jumps_total", 0)
	for i, jump := range []time.Duration{time.Hour, 0} {
		ahead.Store(int64(jump))
		await(t, "the jump is told", func() bool { return strings.Count(log.String(), "has jumped") == i+1 })
		wantMetric(t, reg, "ratelimitd_redis_clock_jumps_total", float64(i+1))
	}
	await(t, "all is told", func() bool { return strings.Contains(log.String(), "is that of this machine again") })
	if got := strings.Count(log.String(), "is not that of this machine"); got != 1 {
		t.Errorf("the difference is told %d times:\n%s", got, log.String())
	}
	if strings.Contains(log.String(), "drops counters") {
		t.Errorf("it warns of what it could not ask:\n%s", log.String())
	}
}

// Redis may be told to drop counters when its memory is full, from the start or
// later: that is said, once.
func TestRedisWarnsOfEviction(t *testing.T) {
	t.Parallel() // it waits for most of its time
	s := redistest.Start(t, redistest.Options{Config: []string{"maxmemory 100mb", "maxmemory-policy noeviction"}})
	var log programtest.Journal
	r, reg := openRedis(t, s.URL(), func(o *RedisOptions) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	awaitReady(t, r)
	gauge := func() float64 { return gaugeOf(t, reg, "ratelimitd_redis_evicting") }
	for _, policy := range []string{"allkeys-lru", "volatile-ttl"} {
		s.Do(t, "config", "set", "maxmemory-policy", policy)
		await(t, "a warning", func() bool { return strings.Count(log.String(), "maxmemory_policy="+policy) == 1 && gauge() == 1 })
		s.Do(t, "config", "set", "maxmemory-policy", "noeviction")
		await(t, "no warning", func() bool { return gauge() == 0 })
	}
	s.Do(t, "config", "set", "maxmemory-policy", "allkeys-lfu")
	await(t, "a warning", func() bool { return gauge() == 1 })
	s.Do(t, "config", "set", "maxmemory", 0) // then nothing is ever full
	await(t, "no warning", func() bool { return gauge() == 0 })
	if got := strings.Count(log.String(), "redis drops counters"); got != 3 {
		t.Errorf("%d warnings, want 3:\n%s", got, log.String())
	}
}

// gaugeOf reads a metric without labels.
func gaugeOf(t *testing.T, reg *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

// Of a Cluster each node is looked at, and named. One that has left is
// forgotten, with its lane.
func TestClusterIsInspected(t *testing.T) {
	t.Parallel() // it waits for most of its time
	c := redistest.StartCluster(t, redistest.Options{})
	c.Masters[1].Do(t, "config", "set", "maxmemory", "100mb", "maxmemory-policy", "volatile-lru")
	var log programtest.Journal
	r, reg := openRedis(t, c.URL(), func(o *RedisOptions) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	await(t, "a warning", func() bool { return gaugeOf(t, reg, "ratelimitd_redis_evicting") == 1 })
	if text := log.String(); strings.Count(text, "redis drops counters") != 1 || !strings.Contains(text, "server="+c.Masters[1].Address) {
		t.Errorf("the log has\n%s", text)
	}
	r.lane("10.0.0.9:6379")
	i := r.inspector
	i.mu.Lock()
	i.servers["10.0.0.9:6379"] = &server{visited: time.Now().Add(-2 * forgetServer), eviction: "allkeys-lru"}
	i.mu.Unlock()
	await(t, "it is forgotten", func() bool {
		_, there := r.lanes.Load("10.0.0.9:6379")
		return !there && gaugeOf(t, reg, "ratelimitd_redis_evicting") == 1
	})
}

// A user who may not ask for INFO is served all the same, and not warned.
func TestRedisThatTellsNothing(t *testing.T) {
	s := redistest.Start(t, redistest.Options{Config: []string{
		"maxmemory 100mb", "maxmemory-policy allkeys-lru", "user app on >secret ~* +@all -info -config"}})
	var log programtest.Journal
	r, reg := openRedis(t, s.URL(), func(o *RedisOptions) {
		o.Server.Username, o.Server.Password, o.Log = "app", "secret", slog.New(slog.NewTextHandler(&log, nil))
	})
	awaitReady(t, r)
	await(t, "two visits", func() bool { return s.Calls(t, "script|exists") >= 2 })
	if text := log.String(); strings.Contains(text, "WARN") {
		t.Errorf("the log has\n%s", text)
	}
	wantMetric(t, reg, "ratelimitd_redis_evicting", 0)
}
