package faults

import (
	"slices"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/ratelimitd/ratelimitd/internal/redistest"
)

// stage is the Redis of a scenario, in one of its shapes, and the load on it.
type stage struct {
	url     string
	nodes   []*redistest.Server
	proxy   *proxy
	watch   *redistest.Sentinel
	cluster *redistest.Cluster

	replicas []*replica
	rules    map[string]rule
	load     *load
	lostHome int64 // what replicas had lost that were killed
}

// redis is the only server.
func (s *stage) redis() *redistest.Server { return s.nodes[0] }

// single is one server, with more lines for its configuration.
func single(config ...string) func(*testing.T) *stage {
	return func(t *testing.T) *stage {
		t.Helper()
		redis := redistest.Start(t, redistest.Options{Config: config})
		return &stage{url: redis.URL(), nodes: []*redistest.Server{redis}}
	}
}

// proxied is one server behind a network that can be spoilt.
func proxied(t *testing.T) *stage {
	t.Helper()
	s := single()(t)
	s.proxy = startProxy(t, s.redis().Address)
	s.url = s.proxy.URL()
	return s
}

// sentinel is a master and a replica that a sentinel watches.
func sentinel(t *testing.T) *stage {
	t.Helper()
	watch := redistest.StartSentinel(t, redistest.Options{})
	return &stage{url: watch.URL(), nodes: watch.Nodes, watch: watch}
}

// cluster is a Cluster of three masters, each with so many replicas.
func cluster(replicas int) func(*testing.T) *stage {
	return func(t *testing.T) *stage {
		t.Helper()
		c := redistest.StartCluster(t, redistest.Options{Replicas: replicas})
		return &stage{url: c.URL(), nodes: c.Masters, cluster: c}
	}
}

// clients returns clients of all servers, which know no detour.
func (s *stage) clients(t *testing.T) []*goredis.Client {
	t.Helper()
	var clients []*goredis.Client
	for _, node := range s.nodes {
		client := node.Client()
		t.Cleanup(func() { _ = client.Close() })
		clients = append(clients, client)
	}
	return clients
}

// keysOn returns the keys of the rules of which a server holds the counters, whose names hold them, and perhaps those that have no
// counter now.
func (s *stage) keysOn(t *testing.T, server *redistest.Server) (on, perhaps map[string]bool) {
	t.Helper()
	on, perhaps = make(map[string]bool), make(map[string]bool)
	for _, node := range s.nodes {
		names := node.Do(t, "keys", "*").([]any)
		for key := range s.rules {
			if slices.ContainsFunc(names, func(name any) bool { return strings.Contains(name.(string), key) }) {
				on[key] = node == server
			}
		}
	}
	for key := range s.rules {
		if _, seen := on[key]; !seen {
			on[key], perhaps[key] = true, true
		}
	}
	return on, perhaps
}

// slotsOn returns a few slots of the Cluster in which a server holds counters.
func (s *stage) slotsOn(t *testing.T, server *redistest.Server) []int {
	t.Helper()
	var slots []int
	for _, name := range server.Do(t, "keys", "*").([]any) {
		if slot := s.cluster.Slot(t, name.(string)); !slices.Contains(slots, slot) {
			slots = append(slots, slot)
		}
	}
	return slots[:min(len(slots), 10)]
}
