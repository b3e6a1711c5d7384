package backend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ratelimitd/ratelimitd/internal/certificates"
	"github.com/ratelimitd/ratelimitd/internal/redistest"
	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// A request is one script call and one round trip, whatever its number of
// descriptors, and so is a batch of requests.
func TestRedisOneCallARequest(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	r, reg := openRedis(t, s.URL(), nil)
	awaitReady(t, r)
	var asks []algorithm.Ask
	for i, a := range algorithm.All {
		asks = append(asks, algorithm.Ask{Key: key(t, fmt.Sprint(i), "k"), Limit: limitOf(t, a.Name, 100, aLongTime), Hits: 1, Group: int32(i / 2)})
	}
	before := s.Calls(t, "evalsha")
	for range 10 {
		r.Decide(context.Background(), asks, make([]algorithm.Decision, len(asks)))
	}
	if got := s.Calls(t, "evalsha") - before; got != 10 {
		t.Errorf("%d script calls for 10 batches of 3 requests, want 10", got)
	}
	if got := s.Calls(t, "eval"); got != 0 {
		t.Errorf("%d calls carried the script's text, want 0: it was loaded before", got)
	}
	wantMetric(t, reg, "ratelimitd_redis_up", 1)
}

func awaitReady(t *testing.T, r *Redis) {
	t.Helper()
	await(t, "the store is ready", func() bool { return r.Ready() == nil })
}

// await polls until a condition holds.
func await(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("in vain: %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// The script is forgotten again and again while requests come in: none fails
// and none is counted twice or not at all.
func TestRedisScriptFlushLosesNoCount(t *testing.T) {
	for _, shape := range []string{"redis", "cluster"} {
		t.Run(shape, func(t *testing.T) {
			t.Parallel()
			s := openShape(t, shape)
			l := limitOf(t, "fixed_window", 1_000_000, aLongTime)
			const callers, calls = 8, 200
			var wg sync.WaitGroup
			for i := range callers {
				wg.Go(func() {
					for range calls {
						asks := []algorithm.Ask{
							{Key: key(t, "a", "shared"), Limit: l, Hits: 1},
							{Key: key(t, "b", fmt.Sprint(i)), Limit: l, Hits: 1},
						}
						s.Decide(context.Background(), asks, make([]algorithm.Decision, 2))
					}
				})
			}
			done := make(chan struct{})
			go func() { wg.Wait(); close(done) }()
			flushes := 0
			for running := true; running; flushes++ {
				select {
				case <-done:
					running = false
				default:
					for _, server := range s.servers {
						server.Do(t, "script", "flush")
					}
					time.Sleep(2 * time.Millisecond)
				}
			}
			if got := s.decide(t, algorithm.Ask{Key: key(t, "a", "shared"), Limit: l})[0].After; got != callers*calls {
				t.Errorf("counted %d of %d (%d flushes)", got, callers*calls, flushes)
			}
			for i := range callers {
				if got := s.decide(t, algorithm.Ask{Key: key(t, "b", fmt.Sprint(i)), Limit: l})[0].After; got != calls {
					t.Errorf("caller %d: counted %d of %d", i, got, calls)
				}
			}
			wantMetric(t, s.reg, "ratelimitd_store_errors_total", 0)
		})
	}
}

func openShape(t *testing.T, name string) *testStore {
	t.Helper()
	for _, shape := range shapes {
		if shape.name == name {
			return shape.open(t)
		}
	}
	t.Fatalf("no shape %s", name)
	return nil
}

// A key that holds something foreign fails the requests that need it, and no
// others of the same batch; nothing of it is written.
func TestRedisCorruptKeyFailsItsOwnRequests(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	r, reg := openRedis(t, s.URL(), nil)
	forEachAlgorithm(t, func(t *testing.T, name string) {
		l := limitOf(t, name, 10, aLongTime)
		spoil := map[string]func(k []byte){
			"hash":    func(k []byte) { s.Do(t, "hset", k, "f", "v") },
			"text":    func(k []byte) { s.Do(t, "set", k, "not a state") },
			"garbage": func(k []byte) { s.Do(t, "set", k, bytes.Repeat([]byte{0xff}, 26)) },
			"list":    func(k []byte) { s.Do(t, "rpush", k, "not an instant") },
		}
		for how, spoil := range spoil {
			bad, good, other := key(t, "a", how+"bad"), key(t, "a", how+"good"), key(t, "a", how+"other")
			spoil(bad)
			out := make([]algorithm.Decision, 4)
			r.Decide(context.Background(), []algorithm.Ask{
				{Key: good, Limit: l, Hits: 1, Group: 0},
				{Key: bad, Limit: l, Hits: 1, Group: 1}, {Key: other, Limit: l, Hits: 1, Group: 1},
				{Key: good, Limit: l, Hits: 1, Group: 2},
			}, out)
			for i, want := range []algorithm.Outcome{algorithm.Allowed, algorithm.Undecided, algorithm.Undecided, algorithm.Allowed} {
				if out[i].Outcome != want || want == algorithm.Undecided && !errors.Is(out[i].Err, algorithm.ErrCorrupt) {
					t.Errorf("%s, ask %d: %v %v, want %v", how, i, out[i].Outcome, out[i].Err, want)
				}
			}
			if out[3].After != 2 {
				t.Errorf("%s: good stands at %d, want 2", how, out[3].After)
			}
			if got := s.Do(t, "exists", other); got != int64(0) {
				t.Errorf("%s: the other key of the failed request was written", how)
			}
		}
	})
	wantMetric(t, reg, "ratelimitd_store_errors_total", float64(4*len(algorithm.All)))
}

// Whichever window the caller's clock suggests, Redis' clock decides.
func TestRedisClockChoosesCalendarWindows(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	r, _ := openRedis(t, s.URL(), nil)
	l, err := algorithm.NewLimit(algorithm.Spec{Requests: 2, Window: time.Hour, Calendar: &algorithm.Calendar{Unit: algorithm.CalendarDay}})
	if err != nil {
		t.Fatal(err)
	}
	plain := limitOf(t, "fixed_window", 5, aLongTime)
	for i, skew := range []time.Duration{0, 48 * time.Hour, -48 * time.Hour} {
		c := r.newCall()
		c.asks = append(c.asks, []algorithm.Ask{
			{Key: key(t, "a", "plain"), Limit: plain, Hits: 1, Group: 0},
			{Key: key(t, "a", "both"), Limit: plain, Hits: 1, Group: 1},
			{Key: key(t, "a", "day"), Limit: l, Hits: 1, Group: 1},
		}...)
		c.prepare(time.Now().Add(skew).UnixMicro())
		r.sendAll(context.Background(), []*scriptCall{c})
		r.askAgainByClock(context.Background(), c)
		want := []string{"ok:4 ok:4 ok:1", "ok:3 ok:3 ok:0", "ok:2 ok:3 over:0"}[i]
		if got := show(c.out); got != want {
			t.Errorf("skew %v: %s, want %s (%v)", skew, got, want, c.out[2].Err)
		}
		r.free(c)
	}
}

func TestRedisOptionsThatCannotWork(t *testing.T) {
	for want, o := range map[string]RedisOptions{
		"redis: no address is given": {},
		"redis: redis_tls_ca_file: /nowhere.pem: no such file or directory": {
			Server: RedisServer{Addresses: []string{"h:1"}, TLS: true}, TLS: TLS{Files: certificates.Files{CA: "/nowhere.pem", CASetting: "redis_tls_ca_file"}}},
		"redis: /nowhere.pem: no such file or directory": {
			Server: RedisServer{Addresses: []string{"h:1"}, TLS: true}, TLS: TLS{Files: certificates.Files{Cert: "/nowhere.pem", Key: "/nowhere.pem"}}},
		"redis: /dev/null: is no regular file": {
			Server: RedisServer{Addresses: []string{"h:1"}, TLS: true}, TLS: TLS{Files: certificates.Files{CA: "/dev/null"}}},
	} {
		if _, err := NewRedis(o); fmt.Sprint(err) != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// A server whose certificate is not trusted is not talked to.
func TestRedisTLSTrustsOnlyItsAuthority(t *testing.T) {
	s := redistest.Start(t, redistest.Options{TLS: true})
	l := limitOf(t, "fixed_window", 5, aLongTime)
	for name, c := range map[string]struct {
		tls  TLS
		want string
	}{
		"system's authorities":  {TLS{}, "unknown authority"},
		"another name":          {TLS{Files: certificates.Files{CA: s.Certificates.CA}, ServerName: "other.example"}, "other.example"},
		"another authority":     {TLS{Files: certificates.Files{CA: redistest.NewCertificates(t, t.TempDir()).CA}, AnyName: true}, "unknown authority"},
		"no client certificate": {TLS{Files: certificates.Files{CA: s.Certificates.CA}}, ""}, // the words depend on who is first to notice
	} {
		r, _ := openRedis(t, s.URL(), func(o *RedisOptions) { o.TLS = c.tls })
		if d := ask1(t, r, "k", l, 1); d.Outcome != algorithm.Undecided || !strings.Contains(fmt.Sprint(d.Err), c.want) {
			t.Errorf("%s: %v %v, want … %s", name, d.Outcome, d.Err, c.want)
		}
	}
}

// Close ends all goroutines of a store.
func TestCloseLeavesNoGoroutine(t *testing.T) {
	before := goroutines()
	for range 10 {
		NewMemory(MemoryOptions{}).Close()
	}
	s := redistest.Start(t, redistest.Options{})
	for range 10 {
		r, err := NewRedis(RedisOptions{Server: RedisServer{Addresses: []string{s.Address}}, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		ask1(t, r, "k", limitOf(t, "fixed_window", 5, time.Hour), 1)
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if d := ask1(t, r, "k", limitOf(t, "fixed_window", 5, time.Hour), 1); !errors.Is(d.Err, ErrUnavailable) {
			t.Errorf("asked after Close: %v %v", d.Outcome, d.Err)
		}
	}
	await(t, "the goroutines end", func() bool { return goroutines() <= before+5 })
}
