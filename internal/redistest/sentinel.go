package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/ratelimitd/ratelimitd/internal/programtest"
)

// MasterName is what the sentinel calls the master.
const MasterName = "ratelimits"

// Sentinel is a master and a replica that a sentinel watches. Its methods are
// for the test's own goroutine.
type Sentinel struct {
	// Nodes are the two servers; which of them is the master changes.
	Nodes []*Server

	// Sentinel watches them.
	Sentinel *Server

	options Options
}

// StartSentinel starts a master, a replica in step with it, and one sentinel.
// Of the options, Unix and Replicas are not for this shape.
func StartSentinel(t testing.TB, options Options) *Sentinel {
	t.Helper()
	options = options.withCertificates(t)
	s := &Sentinel{options: options}
	auth := options.replicaLines()
	for i := range 2 {
		s.Nodes = append(s.Nodes, start(t, tempDir(t), options, func(int) []string {
			lines := auth
			if i == 1 {
				lines = append(lines, fmt.Sprintf("replicaof 127.0.0.1 %d", s.Nodes[0].Port))
			}
			return lines
		}))
	}
	waitFor(t, "the replica is in step", func() bool { return s.Nodes[1].info(t, "replication", "master_link_status") == "up" })
	s.Sentinel = startWatcher(t, s.Nodes[0].Port, options)
	waitFor(t, "the sentinel knows the replica", func() bool {
		replicas, ok := s.Sentinel.Do(t, "sentinel", "replicas", MasterName).([]any)
		return ok && len(replicas) == 1 && strings.Contains(fmt.Sprint(replicas[0]), "master-link-status ok")
	})
	return s
}

// startWatcher starts the sentinel itself.
func startWatcher(t testing.TB, masterPort int, options Options) *Server {
	t.Helper()
	dir := tempDir(t)
	w := &Server{
		options: Options{Password: options.SentinelPassword, TLS: options.TLS}, Certificates: options.Certificates, sentinel: true,
		process: &process{binary: binary(t, "redis-server")},
	}
	t.Cleanup(w.process.kill)
	const tries = 10
	for try := range tries {
		w.listen(programtest.FreePort(t))
		lines := append(w.portLines(), Options{TLS: options.TLS}.replicaLines()...)
		lines = append(lines,
			"bind 127.0.0.1", "dir "+dir, "logfile \"\"", "protected-mode no",
			fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d 1", MasterName, masterPort),
			"sentinel down-after-milliseconds "+MasterName+" 500",
			"sentinel failover-timeout "+MasterName+" 3000")
		if options.SentinelPassword != "" {
			lines = append(lines, "requirepass "+options.SentinelPassword)
		}
		if options.Password != "" {
			lines = append(lines, "sentinel auth-pass "+MasterName+" "+options.Password)
		}
		if options.User != "" {
			lines = append(lines, "sentinel auth-user "+MasterName+" "+options.User)
		}
		w.process.args = []string{writeConfig(t, dir, "sentinel.conf", lines), "--sentinel"}
		if err := w.process.start(); err != nil {
			t.Fatal(err)
		}
		if w.answers(t) {
			break
		}
		if try == tries-1 {
			t.Fatalf("the sentinel does not start:\n%s", w.process.log())
		}
	}
	w.admin = w.Client()
	t.Cleanup(func() { _ = w.admin.Close() })
	return w
}

// URL returns the address as ratelimitd's settings take it.
func (s *Sentinel) URL() string {
	address := s.options.url("+sentinel") + s.Sentinel.Address + "/" + MasterName
	if s.options.SentinelPassword != "" {
		address += "?sentinel_password=" + url.QueryEscape(s.options.SentinelPassword)
	}
	return address
}

// Master returns the node that the sentinel calls the master.
func (s *Sentinel) Master(t testing.TB) *Server {
	t.Helper()
	reply, ok := s.Sentinel.Do(t, "sentinel", "get-master-addr-by-name", MasterName).([]any)
	if !ok || len(reply) != 2 {
		t.Fatalf("the sentinel knows no master: %v", reply)
	}
	address := net.JoinHostPort(fmt.Sprint(reply[0]), fmt.Sprint(reply[1]))
	for _, node := range s.Nodes {
		if node.Address == address {
			return node
		}
	}
	t.Fatalf("the sentinel's master %s is none of the nodes", address)
	return nil
}

// Failover makes the replica the master, in good order, and returns when the
// old master follows the new one. By itself a sentinel gets round to that some
// ten seconds later, and until then the old master takes writes that are lost.
func (s *Sentinel) Failover(t testing.TB) {
	t.Helper()
	old := s.Master(t)
	waitFor(t, "the sentinel starts a fail-over", func() bool {
		err := s.Sentinel.admin.Do(context.Background(), "sentinel", "failover", MasterName).Err()
		return err == nil // it says NOGOODSLAVE until it has heard of the replica lately
	})
	s.AwaitFailover(t, old)
	old.Do(t, "replicaof", "127.0.0.1", s.Master(t).Port)
	waitFor(t, "the old master follows", func() bool { return old.info(t, "replication", "master_link_status") == "up" })
}

// AwaitFailover returns when another node than old is the master: for use
// after old was killed or paused.
func (s *Sentinel) AwaitFailover(t testing.TB, old *Server) {
	t.Helper()
	waitFor(t, "another node is the master", func() bool {
		now := s.Master(t)
		return now != old && now.info(t, "replication", "role") == "master"
	})
}

// info returns one field of INFO; "" when the server does not answer.
func (s *Server) info(t testing.TB, section, field string) string {
	t.Helper()
	text, err := s.admin.Info(context.Background(), section).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return ""
	}
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), field+":"); ok {
			return value
		}
	}
	return ""
}

// nodesFile is where a Cluster node keeps its view of the Cluster.
func nodesFile(dir string) string { return filepath.Join(dir, "nodes.conf") }
