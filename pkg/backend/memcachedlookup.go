package backend

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// lookupTimeout bounds one question for the servers.
	lookupTimeout = 5 * time.Second

	// lookupFirst and lookupLast are the waits between questions while there is
	// no answer at all. lookupLeast is the shortest wait between two answers.
	lookupFirst = 50 * time.Millisecond
	lookupLast  = 5 * time.Second
	lookupLeast = time.Second
)

// Resolver answers questions for SRV records, as [net.Resolver] does.
type Resolver interface {
	LookupSRV(ctx context.Context, service, proto, name string) (string, []*net.SRV, error)
}

// lookups ask DNS for the servers, from a goroutine.
type lookups struct {
	err     atomic.Pointer[error] // why there is no server
	stop    context.CancelFunc
	stopped chan struct{}
}

// lookUp begins to ask, if the servers are to be asked for.
func (m *Memcached) lookUp() *lookups {
	ctx, cancel := context.WithCancel(context.Background())
	l := &lookups{stop: cancel, stopped: make(chan struct{})}
	notYet := fmt.Errorf("%w: DNS has not said yet where memcached is", ErrUnavailable)
	l.err.Store(&notYet)
	if m.options.SRV == "" {
		close(l.stopped)
		return l
	}
	go func() {
		defer close(l.stopped)
		m.lookAgain(ctx, l)
	}()
	return l
}

func (l *lookups) reason() error { return *l.err.Load() }

func (l *lookups) close() {
	l.stop()
	<-l.stopped
}

// lookAgain asks until ctx ends or nobody wants to know any more. What fails
// leaves the servers as they are.
func (m *Memcached) lookAgain(ctx context.Context, l *lookups) {
	wait := lookupFirst
	for {
		switch err := m.lookOnce(ctx); {
		case err != nil && len(m.servers.Load().all) == 0:
			l.err.Store(&err)
			m.failing.Warn("DNS does not say where memcached is", "name", m.options.SRV, "reason", err)
			wait = min(2*wait, lookupLast)
		case err != nil:
			m.failing.Warn("DNS does not say where memcached is; the servers stay as they were", "name", m.options.SRV, "reason", err)
			fallthrough
		default:
			if m.options.SRVRefresh <= 0 {
				return
			}
			wait = max(m.options.SRVRefresh, lookupLeast)
		}
		if !sleep(ctx, wait) {
			return
		}
	}
}

// lookOnce asks once and uses the answer.
func (m *Memcached) lookOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	_, records, err := m.options.Resolver.LookupSRV(ctx, "", "", m.options.SRV)
	if err == nil && len(records) == 0 {
		err = fmt.Errorf("%s lists no servers", m.options.SRV)
	}
	if err == nil {
		before := m.servers.Load().addresses()
		if err = m.use(addressesOf(records)); err == nil {
			if now := m.servers.Load().addresses(); !slices.Equal(before, now) {
				m.log.Info("DNS says where memcached is", "name", m.options.SRV, "servers", strings.Join(now, ","))
			}
			return nil
		}
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

func addressesOf(records []*net.SRV) []string {
	addresses := make([]string, len(records))
	for i, r := range records {
		addresses[i] = net.JoinHostPort(strings.TrimSuffix(r.Target, "."), strconv.Itoa(int(r.Port)))
	}
	return addresses
}

func (p *memcachedServers) addresses() []string {
	addresses := make([]string, len(p.all))
	for i, s := range p.all {
		addresses[i] = s.address
	}
	return addresses
}
