package backend

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/bradfitz/gomemcache/memcache"
)

// errNoCas is the reason for which nothing is decided that could not be charged
// without others' charges being lost.
var errNoCas = fmt.Errorf("%w: memcached has no cas, which counting needs: it was started with -C, or what stands before it has none", ErrUnavailable)

// readSome reads counters in one call.
func (s *memcachedServer) readSome(x *session, counters []*counter) error {
	var items map[string]*memcache.Item
	err := s.ask(x, func(client *memcache.Client) (err error) {
		items, err = getAll(client, counters)
		return err
	})
	s.store.metrics.read(len(counters), len(items), err)
	if err != nil {
		return err
	}
	for _, c := range counters {
		item := items[c.key]
		if item == nil {
			continue
		}
		c.found, c.stored, c.cas = true, item.Value, item.CasID
		if c.cas == 0 {
			c.err = errNoCas
			continue
		}
		if c.state, c.err = c.limit.DecodeState(item.Value); c.err != nil {
			c.err = fmt.Errorf("%w: memcached key %q", c.err, c.key)
		}
	}
	return nil
}

// getAll gets what is stored of counters. One is got without the library's
// goroutine.
func getAll(client *memcache.Client, counters []*counter) (map[string]*memcache.Item, error) {
	if len(counters) == 1 {
		item, err := client.Get(counters[0].key)
		switch {
		case errors.Is(err, memcache.ErrCacheMiss):
			return map[string]*memcache.Item{}, nil
		case err != nil:
			return nil, err
		}
		return map[string]*memcache.Item{item.Key: item}, nil
	}
	keys := make([]string, len(counters))
	for i, c := range counters {
		keys[i] = c.key
	}
	return client.GetMulti(keys)
}

// fewWrites is how many counters are written one after another rather than at
// once.
const fewWrites = 2

// write writes the counters that have changed, unless others have done so since
// they were read. Each is told what became of it.
func (s *memcachedServer) write(x *session, counters []*counter, now int64) error {
	var changed []*counter
	for _, c := range counters {
		if c.err == nil && c.changed(now) {
			changed = append(changed, c)
		}
	}
	if len(changed) <= fewWrites {
		for _, c := range changed {
			s.writeOne(x, c, now)
		}
		return verdictOf(changed)
	}
	var next atomic.Int64
	writeRest := func(x *session) {
		for i := next.Add(1) - 1; i < int64(len(changed)); i = next.Add(1) - 1 {
			s.writeOne(x, changed[i], now)
		}
	}
	var writing sync.WaitGroup
	for range min(len(changed), s.store.options.Connections) - 1 {
		writing.Go(func() {
			x := s.begin(x.end)
			defer s.release(x)
			writeRest(x)
		})
	}
	writeRest(x)
	writing.Wait()
	return verdictOf(changed)
}

// changed reports whether a counter has to be written: whether it is another than
// was read, and not one that equals one never seen.
func (c *counter) changed(now int64) bool {
	if !c.found && c.limit.Expiry(&c.state) <= now {
		return false
	}
	before := c.stored
	c.stored = c.limit.AppendState(nil, &c.state)
	return !bytes.Equal(before, c.stored)
}

func (s *memcachedServer) writeOne(x *session, c *counter, now int64) {
	item := &memcache.Item{Key: c.key, Value: c.stored, Expiration: expiration(c.limit.Expiry(&c.state), now), CasID: c.cas}
	verb, write := "add", x.client.Add
	if c.found {
		verb, write = "cas", x.client.CompareAndSwap
	}
	err := write(item)
	switch {
	case err == nil:
	case errors.Is(err, memcache.ErrNotStored), errors.Is(err, memcache.ErrCASConflict), errors.Is(err, memcache.ErrCacheMiss):
		c.lost, err = true, nil
	default:
		err = writeError(err)
	}
	c.err = err
	s.store.metrics.wrote(verb, c.lost, err)
}

// isDial reports whether an error is about a connection that was not made.
func isDial(err error) bool {
	var late *memcache.ConnectTimeoutError
	var failed *net.OpError
	return errors.As(err, &late) || errors.As(err, &failed) && failed.Op == "dial"
}

// errTooLarge is the reason for which what memcached has no place for is not
// charged, however much room there is.
var errTooLarge = fmt.Errorf("%w: the counter is larger than memcached takes, see its option -I", ErrUnavailable)

// writeError is the reason for which what depends on a counter is not decided.
func writeError(err error) error {
	said := strings.ToLower(err.Error())
	switch {
	case isDial(err): // nothing was sent
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	case strings.Contains(said, "server_error object too large"):
		return errTooLarge
	case strings.Contains(said, "server_error out of memory"): // it says that it has not stored; a proxy with another one may have
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	case isTimeout(err):
		return fmt.Errorf("%w: %w", ErrTimeout, err)
	default:
		return fmt.Errorf("%w: %w", ErrLost, err)
	}
}
