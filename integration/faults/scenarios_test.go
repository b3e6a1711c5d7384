package faults

import (
	"strings"
	"testing"
	"time"

	"github.com/ratelimitd/ratelimitd/internal/redistest"
)

// during makes a fault of what lasts for an outage: its beginning and its end.
func during(begin, end func(*testing.T, *stage)) func(*testing.T, *stage) fault {
	return func(t *testing.T, s *stage) fault {
		t.Helper()
		f := fault{began: now()}
		begin(t, s)
		s.load.goOn(t, outage)
		end(t, s)
		f.ended = now()
		return f
	}
}

// losing makes a fault one that loses all charges.
func losing(strike func(*testing.T, *stage) fault) func(*testing.T, *stage) fault {
	return func(t *testing.T, s *stage) fault {
		t.Helper()
		f := strike(t, s)
		f.loses = true
		return f
	}
}

// opening is how long a store must hang to be left alone: eight calls in a row of which four may be under way at a time.
const opening = 2*storeTimeout + room

// probing is how many calls go to a store that is left alone: of each replica three each 250 ms. Each of them may carry a few asks.
func probing(during time.Duration) int {
	const asks = 2
	return asks * replicas * 3 * int(during/(250*time.Millisecond)+1)
}

// exposing makes a fault one in which calls reach the store unheard, or wait for it in vain.
func exposing(strike func(*testing.T, *stage) fault) func(*testing.T, *stage) fault {
	return func(t *testing.T, s *stage) fault {
		t.Helper()
		f := strike(t, s)
		f.exposed = opening
		f.probes = probing(f.ended.since(f.began) + storeTimeout)
		return f
	}
}

// spoiling makes a fault of a network that toxics spoil.
func spoiling(toxics ...string) func(*testing.T, *stage) fault {
	return during(
		func(t *testing.T, s *stage) { s.proxy.spoil(t, toxics...) },
		func(_ *testing.T, s *stage) { s.proxy.mend() })
}

func pause(_ *testing.T, s *stage)  { s.redis().Pause() }
func resume(_ *testing.T, s *stage) { s.redis().Resume() }
func kill(_ *testing.T, s *stage)   { s.redis().Kill() }
func restart(t *testing.T, s *stage) {
	t.Helper()
	s.redis().Restart(t)
}

// scenarios are the faults. In each of them three replicas answer a load for limits of all algorithms and policies.
var scenarios = []scenario{
	{name: "none", build: single(), strike: during(func(*testing.T, *stage) {}, func(*testing.T, *stage) {})},
	{name: "Redis stands still (SIGSTOP)", build: single(), strike: exposing(during(pause, resume))},
	{name: "Redis is killed, and back without its data", build: single(), strike: losing(during(kill, restart))},
	{name: "Redis is killed, and back with its data", build: single("appendonly yes", "appendfsync no"), strike: during(kill, restart)},
	{name: "Redis is full (maxmemory)", build: single(), strike: during(
		func(t *testing.T, s *stage) { s.redis().Do(t, "config", "set", "maxmemory", "1mb") },
		func(t *testing.T, s *stage) { s.redis().Do(t, "config", "set", "maxmemory", "0") })},
	{name: "Redis forgets the script, ten times", build: single(), strike: flushScripts},
	{name: "the master is made a replica, and the address leads to the new master", build: replicated, strike: exposing(handOver)},
	{name: "Sentinel: the master is handed over", build: sentinel, strike: failOver},
	{name: "Sentinel: the master is killed", build: sentinel, strike: killMaster},
	{name: "Cluster: slots move", build: cluster(0), strike: moveSlots},
	{name: "Cluster: a node is killed, and back without its data", build: cluster(0), strike: killNode},
	{name: "Cluster of six: a slot moves, its new master is killed, and a replica takes over", build: cluster(1), strike: replaceNode},
	{name: "the network is slower, but in time", build: proxied, strike: spoiling(`{"type": "latency", "attributes": {"latency": 20, "jitter": 10}}`)},
	{name: "the network is too slow", build: proxied, strike: exposing(spoiling(`{"type": "latency", "attributes": {"latency": 300}}`))},
	{name: "half of the connections are silent", build: proxied, strike: exposing(spoiling(`{"type": "timeout", "toxicity": 0.5, "attributes": {"timeout": 0}}`))},
	{name: "the network is silent", build: proxied, strike: exposing(spoiling(
		`{"name": "up", "type": "timeout", "stream": "upstream", "attributes": {"timeout": 0}}`,
		`{"name": "down", "type": "timeout", "attributes": {"timeout": 0}}`))},
	{name: "connections break in the middle of answers", build: proxied, strike: exposing(spoiling(`{"type": "limit_data", "attributes": {"bytes": 500}}`))},
	{name: "the network is cut", build: proxied, strike: during(
		func(_ *testing.T, s *stage) { s.proxy.Stop() },
		func(t *testing.T, s *stage) { s.proxy.reconnect(t) })},
}

func flushScripts(t *testing.T, s *stage) fault {
	t.Helper()
	f := fault{began: now()}
	for range 10 {
		s.redis().Do(t, "script", "flush")
		s.load.goOn(t, outage/10)
	}
	f.ended = now()
	return f
}

// replicated is a master and a replica in step with it; an address leads to the master.
func replicated(t *testing.T) *stage {
	t.Helper()
	s := proxied(t)
	replica := redistest.Start(t, redistest.Options{})
	replica.Do(t, "replicaof", "127.0.0.1", s.redis().Port)
	s.nodes = append(s.nodes, replica)
	waitFor(t, "the replica to be in step", func() bool { return s.redis().Do(t, "wait", 1, 100) == int64(1) })
	return s
}

// handOver makes the master a replica, without a loss, as an operator does.
func handOver(t *testing.T, s *stage) fault {
	t.Helper()
	old, next := s.nodes[0], s.nodes[1]
	f := fault{began: now()}
	old.Do(t, "failover", "to", "127.0.0.1", next.Port)
	waitFor(t, "the replica to be the master", func() bool { return next.Do(t, "role").([]any)[0] == "master" })
	s.load.goOn(t, outage)
	s.proxy.lead(t, next.Address)
	f.ended = now()
	return f
}

// failOver has the sentinel hand over. What the old master still takes is lost.
func failOver(t *testing.T, s *stage) fault {
	t.Helper()
	f := fault{began: now(), loses: true}
	f.lostFrom = f.began
	s.watch.Failover(t)
	f.ended = now()
	f.exposed = f.ended.since(f.began)
	return f
}

// killMaster has the sentinel find out by itself.
func killMaster(t *testing.T, s *stage) fault {
	t.Helper()
	master := s.watch.Master(t)
	f := fault{loses: true, lostFrom: now()}
	master.Do(t, "set", "mark", "", "px", 1000)
	master.Do(t, "wait", 1, patience.Milliseconds()) // for what was written before
	f.began = now()
	master.Kill()
	s.watch.AwaitFailover(t, master)
	f.ended = now()
	return f
}

func moveSlots(t *testing.T, s *stage) fault {
	t.Helper()
	f := fault{began: now()}
	for _, slot := range s.slotsOn(t, s.nodes[0]) {
		s.cluster.MoveSlot(t, slot, 1, func() { s.load.goOn(t, outage/20) })
	}
	f.ended = now()
	return f
}

func killNode(t *testing.T, s *stage) fault {
	t.Helper()
	on, perhaps := s.keysOn(t, s.nodes[2])
	f := fault{only: on, perhaps: perhaps, loses: true, began: now()}
	s.nodes[2].Kill()
	s.load.goOn(t, outage)
	s.nodes[2].Restart(t)
	waitFor(t, "the node to serve", func() bool { // by itself it waits two seconds after its start
		return strings.Contains(s.nodes[2].Do(t, "cluster", "info").(string), "cluster_state:ok")
	})
	f.ended = now()
	return f
}

// replaceNode moves a slot to a master, ends that, and lets the Cluster make its replica the master.
func replaceNode(t *testing.T, s *stage) fault {
	t.Helper()
	const victim = 1
	master := s.nodes[victim]
	f := fault{loses: true, began: now()}
	s.cluster.MoveSlot(t, s.slotsOn(t, s.nodes[0])[0], victim, func() { s.load.goOn(t, outage/20) })
	f.only, f.perhaps = s.keysOn(t, master)
	f.lostFrom = now()
	tag, _, _ := strings.Cut(master.Do(t, "keys", "*").([]any)[0].(string), "}")
	master.Do(t, "set", tag+"}mark", "", "px", 1000)
	master.Do(t, "wait", 1, patience.Milliseconds()) // for what was written before
	master.Kill()
	s.cluster.AwaitFailover(t, victim)
	f.ended = now()
	return f
}
