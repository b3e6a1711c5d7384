package backend

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// maxServers bounds how many servers there may be.
const maxServers = 256

// memcachedServers say where keys lie. They do not change; another list is
// another value. Each server is a slot.
type memcachedServers struct {
	store *Memcached
	all   []*memcachedServer
}

// placeOf implements places.
func (p *memcachedServers) placeOf(ask *algorithm.Ask) place {
	if len(p.all) == 0 {
		return place{in: p}
	}
	return place{p, p.slotOf(ask.Key)}
}

// decideTogether implements keeper.
func (p *memcachedServers) decideTogether(ctx context.Context, _ *lane, asks []algorithm.Ask, out []algorithm.Decision) {
	s, began := split{where: p, ctx: ctx}, time.Now()
	var several [][2]int
	for from, to := range groups(asks) {
		s.add(asks, from, to)
		if to-from > 1 {
			several = append(several, [2]int{from, to})
		}
	}
	s.run(out)
	if len(several) > 0 {
		settle(ctx, p, began, asks, out, several)
	}
}

// inParts implements keeper: each counter is charged by itself.
func (p *memcachedServers) inParts() bool { return true }

// giveBack implements keeper.
func (p *memcachedServers) giveBack(ctx context.Context, undo []algorithm.Ask) <-chan []algorithm.Decision {
	return p.store.returns.send(ctx, oneByOne(p), undo)
}

// trouble implements keeper.
func (p *memcachedServers) trouble() *sparingLog { return p.store.failing }

// slotOf returns the server of a key by rendezvous hashing: of all servers the one
// whose hash together with the key's tag is the largest. So processes with the
// same servers agree, a server more or less moves only its own keys, and keys with
// one tag lie on one server.
func (p *memcachedServers) slotOf(key []byte) uint16 {
	if len(p.all) == 1 {
		return 0
	}
	tag := xxhash.Sum64(hashTag(key))
	best, most := 0, uint64(0)
	for i, s := range p.all {
		if score := mix(s.seed ^ tag); score >= most {
			best, most = i, score
		}
	}
	return uint16(best)
}

// mix spreads the bits of a number: the finalizer of splitmix64 (Steele, Lea and
// Flood, 2014).
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

func (p *memcachedServers) laneOf(_ context.Context, key []byte) *lane {
	return p.all[p.slotOf(key)].lane
}

// use has the store use servers from now on. Those that it has used stay as they
// are.
func (m *Memcached) use(addresses []string) error {
	if len(addresses) > maxServers {
		return fmt.Errorf("there are %d servers, and at most %d", len(addresses), maxServers)
	}
	before := m.servers.Load().all
	addresses = slices.Compact(slices.Sorted(slices.Values(addresses)))
	now := &memcachedServers{store: m}
	for _, address := range addresses {
		if at := slices.IndexFunc(before, func(s *memcachedServer) bool { return s.address == address }); at >= 0 {
			now.all = append(now.all, before[at])
			continue
		}
		if err := checkMemcachedAddress(address); err != nil {
			return err
		}
		now.all = append(now.all, m.newServer(address))
	}
	m.servers.Store(now)
	for _, s := range before {
		if !slices.Contains(now.all, s) {
			s.close()
		}
	}
	return nil
}

// checkMemcachedAddress reports what is wrong with the address of a server.
func checkMemcachedAddress(address string) error {
	if strings.HasPrefix(address, "/") {
		return nil
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" {
		return fmt.Errorf("%q is not host:port, nor a path that begins with /", address)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("the port of %q is not a number from 1 to 65535", address)
	}
	return nil
}

// connect is what the watch asks: whether any server answers.
func (m *Memcached) connect(ctx context.Context) error {
	servers := m.servers.Load().all
	if len(servers) == 0 {
		return m.looking.reason()
	}
	errs := make([]error, len(servers))
	var asking sync.WaitGroup
	for i, s := range servers {
		asking.Go(func() { errs[i] = s.ping(ctx) })
	}
	asking.Wait()
	if slices.Contains(errs, nil) {
		return nil
	}
	return errors.Join(errs...)
}
