package backend

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// zone is a DNS that lists what it is told to: addresses at which nothing listens.
type zone struct {
	records atomic.Pointer[[]*net.SRV] // nil: it fails
	asked   atomic.Int64
	name    atomic.Pointer[string]
}

func (z *zone) LookupSRV(_ context.Context, service, proto, name string) (string, []*net.SRV, error) {
	z.asked.Add(1)
	z.name.Store(&name)
	records := z.records.Load()
	if records == nil || service+proto != "" {
		return "", nil, errors.New("no such host")
	}
	return name, *records, nil
}

func (z *zone) list(targets ...string) {
	records := []*net.SRV{}
	for _, target := range targets {
		records = append(records, &net.SRV{Target: target, Port: 9})
	}
	z.records.Store(&records)
}

// The history of a list of servers: what fails, or lists nothing, leaves it as it
// was; nobody waits for DNS.
func TestMemcachedServersByDNS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var z zone
		var log bytes.Buffer
		m, err := NewMemcached(MemcachedOptions{
			SRV: "_memcached._tcp.example.com", SRVRefresh: 10 * time.Second, Resolver: &z, Log: slog.New(slog.NewTextHandler(&log, nil)),
			DialTimeout: time.Millisecond,
		})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		l := limitOf(t, "fixed_window", 5, aLongTime)
		synctest.Wait()
		if d := ask1(t, m, "{a}k", l, 1); d.Outcome != algorithm.Undecided || !errors.Is(d.Err, ErrUnavailable) || !strings.Contains(d.Err.Error(), "no such host") {
			t.Errorf("without servers: %+v", d)
		}
		for i, step := range []struct {
			change func()
			want   []string
		}{
			{func() { z.list("127.0.0.2.", "127.0.0.1.") }, []string{"127.0.0.1:9", "127.0.0.2:9"}},
			{func() { z.records.Store(nil) }, []string{"127.0.0.1:9", "127.0.0.2:9"}},
			{func() { z.list() }, []string{"127.0.0.1:9", "127.0.0.2:9"}},
			{func() { z.list("127.0.0.3.", "127.0.0.2.") }, []string{"127.0.0.2:9", "127.0.0.3:9"}},
		} {
			kept := m.servers.Load().all
			step.change()
			time.Sleep(11 * time.Second)
			synctest.Wait()
			now := m.servers.Load()
			if got := now.addresses(); !slices.Equal(got, step.want) {
				t.Errorf("step %d: %v, want %v", i, got, step.want)
			}
			for _, s := range kept {
				if slices.Contains(step.want, s.address) != slices.Contains(now.all, s) {
					t.Errorf("step %d: %s is another one, or still there", i, s.address)
				}
			}
		}
		if got := *z.name.Load(); got != "_memcached._tcp.example.com" {
			t.Errorf("asked for %q", got)
		}
		if got := strings.Count(log.String(), "DNS says where memcached is"); got != 2 {
			t.Errorf("%d lines about new servers, want 2:\n%s", got, log.String())
		}
	})
}

// Without a refresh DNS is asked until it answers, and never again.
func TestMemcachedServersByDNSOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var z zone
		m, err := NewMemcached(MemcachedOptions{SRV: "_m._tcp.b", Resolver: &z, Log: slog.New(slog.DiscardHandler), DialTimeout: time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		time.Sleep(time.Minute)
		before := z.asked.Load()
		if before < 10 || before > 30 {
			t.Errorf("asked %d times in a minute", before)
		}
		z.list("127.0.0.1.")
		time.Sleep(time.Hour)
		if got := z.asked.Load(); got != before+1 || len(m.servers.Load().all) != 1 {
			t.Errorf("asked %d times more, %v", got-before, m.servers.Load().addresses())
		}
	})
}

// Servers are found by all processes alike, in whatever order they are listed, and
// one more moves about its share of the counters to itself and none besides.
func TestMemcachedPlaces(t *testing.T) {
	list := func(addresses ...string) *memcachedServers {
		m, err := NewMemcached(MemcachedOptions{Servers: addresses, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(m.Close)
		return m.servers.Load()
	}
	three, reversed := list("127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"), list("127.0.0.1:3", "127.0.0.1:2", "127.0.0.1:1", "127.0.0.1:1")
	four := list("127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3", "127.0.0.1:4")
	on := func(p *memcachedServers, key []byte) string { return p.all[p.slotOf(key)].address }
	moved, held := 0, map[string]int{}
	for i := range 4096 {
		key := []byte{'{', byte(i >> 8), byte(i), '}', 'k'}
		if byte(i) == '}' || byte(i>>8) == '}' {
			continue
		}
		before, after := on(three, key), on(four, key)
		held[after]++
		if on(reversed, key) != before {
			t.Fatalf("%q lies elsewhere in another order", key)
		}
		if before != after {
			moved++
			if after != "127.0.0.1:4" {
				t.Fatalf("%q has moved from %s to %s", key, before, after)
			}
		}
	}
	for address, n := range held {
		if n < 900 || n > 1150 {
			t.Errorf("%s holds %d of 4096", address, n)
		}
	}
	if moved != held["127.0.0.1:4"] {
		t.Errorf("%d moved, %d are there", moved, held["127.0.0.1:4"])
	}
}

func TestMemcachedOptions(t *testing.T) {
	for want, o := range map[string]MemcachedOptions{
		"memcached: no server is given": {},
		"memcached: both servers and a name of SRV records are given; one of them says where memcached is": {Servers: []string{"a:1"}, SRV: "_m._tcp.b"},
		`memcached: "a" is not host:port, nor a path that begins with /`:                                   {Servers: []string{"a"}},
		`memcached: the port of "a:0" is not a number from 1 to 65535`:                                     {Servers: []string{"a:0"}},
	} {
		if _, err := NewMemcached(o); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
