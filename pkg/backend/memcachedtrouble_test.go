package backend

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/ratelimitd/ratelimitd/internal/redistest"
	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// badLine passes connections on to a server, and now and then cuts one, also in the
// middle of a line, or holds up what it passes on.
func badLine(t *testing.T, target string) (address string) {
	t.Helper()
	return listenFor(t, func(conn net.Conn) {
		server, err := net.Dial("tcp", target)
		if err != nil {
			_ = conn.Close()
			return
		}
		go passBadly(server, conn)
		passBadly(conn, server)
	})
}

func passBadly(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	for buffer := make([]byte, 4096); ; {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		part := buffer[:n]
		switch luck := rand.IntN(5000); {
		case luck < 5:
			return
		case luck < 10:
			_, _ = to.Write(part[:rand.IntN(n)])
			return
		case luck < 20:
			time.Sleep(rand.N(60 * time.Millisecond))
		case luck < 30 && n > 1:
			half := 1 + rand.IntN(n-1)
			if _, err := to.Write(part[:half]); err != nil {
				return
			}
			time.Sleep(rand.N(5 * time.Millisecond))
			part = part[half:]
		}
		if _, err := to.Write(part); err != nil {
			return
		}
	}
}

// Several replicas ask over lines that break and stall. No two are told the same
// place in a counter, which an answer to somebody else, a lost charge or a doubled one
// would show; and what is counted in the end is what was allowed, and of what is not
// known a part.
func TestMemcachedOverBadLines(t *testing.T) {
	t.Parallel()
	server := redistest.StartMemcached(t, redistest.MemcachedOptions{})
	var replicas []*Memcached
	for range 4 {
		address := badLine(t, server.Address)
		m, _ := openMemcached(t, nil, func(o *MemcachedOptions) { o.Servers, o.Timeout = []string{address}, 80*time.Millisecond })
		replicas = append(replicas, m)
	}
	l := limitOf(t, "fixed_window", 1000, aLongTime)
	const keys = 4
	var (
		mu              sync.Mutex // protects what follows
		allowed, unsure [keys]int64
		places          = map[[2]int64]bool{}
	)
	note := func(k int64, d *algorithm.Decision) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case d.Outcome == algorithm.Allowed:
			allowed[k]++
			if places[[2]int64{k, d.After}] {
				t.Errorf("two are at place %d of counter %d", d.After, k)
			}
			places[[2]int64{k, d.After}] = true
		case d.Outcome == algorithm.Undecided && !chargedNothing(d):
			unsure[k]++
		}
	}
	var asking sync.WaitGroup
	end := time.Now().Add(1500 * time.Millisecond)
	for i := range 24 {
		asking.Go(func() {
			for time.Now().Before(end) {
				ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond+rand.N(60*time.Millisecond))
				asks := make([]algorithm.Ask, 1+rand.IntN(4))
				which := make([]int64, len(asks))
				for j := range asks {
					which[j] = rand.Int64N(keys)
					asks[j] = algorithm.Ask{Key: fmt.Appendf(nil, "{a}%d", which[j]), Limit: l, Hits: 1, Group: int32(j)}
				}
				out := make([]algorithm.Decision, len(asks))
				replicas[i%len(replicas)].Decide(ctx, asks, out)
				cancel()
				for j := range out {
					note(which[j], &out[j])
				}
			}
		})
	}
	asking.Wait()
	direct, _ := openMemcached(t, []*redistest.Memcached{server}, nil)
	for k := range keys {
		var counted int64
		await(t, "what is on its way arrives", func() bool {
			before := counted
			time.Sleep(100 * time.Millisecond)
			counted = ask1(t, direct, fmt.Sprintf("{a}%d", k), l, 0).After
			return counted == before
		})
		if counted < allowed[k] || counted > allowed[k]+unsure[k] || allowed[k] > l.Requests {
			t.Errorf("counter %d: %d counted, %d allowed, and %d not known", k, counted, allowed[k], unsure[k])
		}
		t.Logf("counter %d: %d counted, %d allowed, and %d not known", k, counted, allowed[k], unsure[k])
	}
}
