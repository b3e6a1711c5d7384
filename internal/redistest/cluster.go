package redistest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// slots is how many hash slots every Redis Cluster has.
const slots = 16384

// Cluster is a Redis Cluster. Its methods are for the test's
// own goroutine.
type Cluster struct {
	// Masters share the slots evenly, in order, until slots are moved.
	Masters []*Server

	// Replicas are those of the first master, of the second, and so on.
	Replicas []*Server

	ids     []string // the masters' names within the Cluster
	options Options
}

// StartCluster starts a Cluster of three masters, which keeps serving the slots
// that are left when a node is gone, with Replicas for each. Of the options, Unix is
// not for this shape.
func StartCluster(t testing.TB, options Options) *Cluster {
	t.Helper()
	options = options.withCertificates(t)
	c := &Cluster{options: options}
	const masters = 3
	for range masters {
		node := startNode(t, options)
		c.Masters = append(c.Masters, node)
		c.ids = append(c.ids, node.Do(t, "cluster", "myid").(string))
	}
	for i, node := range c.Masters {
		node.Do(t, "cluster", "addslotsrange", i*slots/masters, (i+1)*slots/masters-1)
		node.Do(t, "cluster", "set-config-epoch", i+1)
		for _, other := range c.Masters[:i] {
			node.Do(t, "cluster", "meet", "127.0.0.1", other.Port, other.bus(t))
		}
	}
	waitFor(t, "the Cluster agrees", func() bool {
		for _, node := range c.Masters {
			if node.clusterInfo(t, "cluster_slots_ok") != fmt.Sprint(slots) || node.clusterInfo(t, "cluster_state") != "ok" {
				return false
			}
		}
		return true
	})
	c.addReplicas(t)
	return c
}

// startNode starts a server that can be part of a Cluster.
func startNode(t testing.TB, options Options) *Server {
	t.Helper()
	dir := tempDir(t)
	return start(t, dir, options, func(bus int) []string {
		lines := options.replicaLines()
		if options.TLS {
			lines = append(lines, "tls-cluster yes")
		}
		return append(lines,
			"cluster-enabled yes", "cluster-config-file "+nodesFile(dir), "cluster-node-timeout 2000",
			fmt.Sprintf("cluster-port %d", bus), "cluster-require-full-coverage no", "cluster-allow-reads-when-down no")
	})
}

// addReplicas starts the replicas, and returns when each is in step with its
// master and every master knows it.
func (c *Cluster) addReplicas(t testing.TB) {
	t.Helper()
	for range len(c.Masters) * c.options.Replicas {
		node := startNode(t, c.options)
		for _, master := range c.Masters {
			node.Do(t, "cluster", "meet", "127.0.0.1", master.Port, master.bus(t))
		}
		c.Replicas = append(c.Replicas, node)
	}
	for i, node := range c.Replicas {
		waitFor(t, "the replica finds its master", func() bool {
			return node.admin.Do(context.Background(), "cluster", "replicate", c.ids[i/c.options.Replicas]).Err() == nil
		})
	}
	for i, node := range c.Replicas {
		id := node.Do(t, "cluster", "myid").(string)
		waitFor(t, "the replica is in step", func() bool {
			known := node.info(t, "replication", "master_link_status") == "up"
			for _, master := range c.Masters {
				replicas := master.Do(t, "cluster", "replicas", c.ids[i/c.options.Replicas])
				known = known && strings.Contains(fmt.Sprint(replicas), id)
			}
			return known
		})
	}
}

// AwaitFailover returns when a replica has taken the place of a master that was
// killed or paused. It is in Masters then, and the other in Replicas.
func (c *Cluster) AwaitFailover(t testing.TB, master int) {
	t.Helper()
	waitFor(t, "a replica takes over", func() bool {
		for i, node := range c.Replicas {
			if i/c.options.Replicas == master && node.info(t, "replication", "role") == "master" && node.clusterInfo(t, "cluster_state") == "ok" {
				c.Masters[master], c.Replicas[i] = node, c.Masters[master]
				c.ids[master] = node.Do(t, "cluster", "myid").(string)
				return true
			}
		}
		return false
	})
}

// bus returns the port at which a node talks to the others.
func (s *Server) bus(t testing.TB) string {
	t.Helper()
	reply := s.Do(t, "config", "get", "cluster-port")
	return fmt.Sprint(reply.([]any)[1])
}

func (s *Server) clusterInfo(t testing.TB, field string) string {
	t.Helper()
	for line := range strings.Lines(s.Do(t, "cluster", "info").(string)) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), field+":"); ok {
			return value
		}
	}
	return ""
}

// Addresses returns the masters' addresses.
func (c *Cluster) Addresses() []string {
	addresses := make([]string, len(c.Masters))
	for i, node := range c.Masters {
		addresses[i] = node.Address
	}
	return addresses
}

// URL returns the addresses as ratelimitd's settings take them.
func (c *Cluster) URL() string {
	return c.options.url("") + strings.Join(c.Addresses(), ",")
}

// Slot returns the hash slot of a key.
func (c *Cluster) Slot(t testing.TB, key string) int {
	t.Helper()
	return int(c.Masters[0].Do(t, "cluster", "keyslot", key).(int64))
}

// Owner returns the index of the master that serves a slot, by the view of the
// masters themselves.
func (c *Cluster) Owner(t testing.TB, slot int) int {
	t.Helper()
	for _, node := range c.Masters {
		if !node.process.alive() {
			continue
		}
		shards, err := node.admin.ClusterShards(context.Background()).Result()
		if err != nil {
			continue
		}
		for _, shard := range shards {
			for _, r := range shard.Slots {
				if int(r.Start) <= slot && slot <= int(r.End) {
					return c.index(shard.Nodes[0].ID)
				}
			}
		}
	}
	t.Fatalf("nobody serves slot %d", slot)
	return -1
}

func (c *Cluster) index(id string) int {
	for i := range c.ids {
		if c.ids[i] == id {
			return i
		}
	}
	return -1
}

// Keys returns how many keys the Cluster holds.
func (c *Cluster) Keys(t testing.TB) int {
	t.Helper()
	n := 0
	for _, node := range c.Masters {
		n += node.Keys(t)
	}
	return n
}

// MoveSlot moves a slot with its keys to another master, under whatever load
// there is. during, if not nil, is called while the slot is half moved: its
// keys still at the old owner, which answers ASK for those it does not have.
func (c *Cluster) MoveSlot(t testing.TB, slot, to int, during func()) {
	t.Helper()
	from := c.Owner(t, slot)
	if from == to {
		return
	}
	source, target := c.Masters[from], c.Masters[to]
	target.Do(t, "cluster", "setslot", slot, "importing", c.ids[from])
	source.Do(t, "cluster", "setslot", slot, "migrating", c.ids[to])
	if during != nil {
		during()
	}
	c.migrate(t, slot, source, target)
	target.Do(t, "cluster", "setslot", slot, "node", c.ids[to])
	source.Do(t, "cluster", "setslot", slot, "node", c.ids[to])
	for i, node := range c.Masters {
		if i != from && i != to && node.process.alive() {
			node.Do(t, "cluster", "setslot", slot, "node", c.ids[to])
		}
	}
}

// migrate moves the keys of a slot, a few at a time, as redis-cli does.
func (c *Cluster) migrate(t testing.TB, slot int, source, target *Server) {
	t.Helper()
	for {
		keys, err := source.admin.ClusterGetKeysInSlot(context.Background(), slot, 10).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			t.Fatalf("keys in slot %d: %v", slot, err)
		}
		if len(keys) == 0 {
			return
		}
		args := []any{"migrate", "127.0.0.1", target.Port, "", 0, 5000}
		switch {
		case c.options.User != "":
			args = append(args, "auth2", c.options.User, c.options.Password)
		case c.options.Password != "":
			args = append(args, "auth", c.options.Password)
		}
		args = append(args, "keys")
		for _, key := range keys {
			args = append(args, key)
		}
		source.Do(t, args...)
	}
}
