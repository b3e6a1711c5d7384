package backend

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ratelimitd/ratelimitd/internal/programtest"
	"github.com/ratelimitd/ratelimitd/internal/redistest"
)

func TestHeadcount(t *testing.T) {
	const missed = -1
	var h headcount
	for i, row := range []struct {
		at   int // seconds
		saw  int
		want int
	}{
		{0, 1, 1}, {1, 3, 3}, // it grows at once
		{2, 1, 3}, {3, 2, 3}, {11, 1, 3}, {12, 1, 2}, // and shrinks to the most that was seen in ten seconds
		{13, 1, 2}, {14, 2, 2}, {23, 1, 2}, {24, 1, 2}, {33, 1, 1}, // those ten begin anew with each sight of them
		{40, 5, 5}, {41, 1, 5}, {45, missed, 5}, {52, 1, 5}, {61, 1, 5}, {62, 1, 1}, // and after each time that nobody could be seen
	} {
		now := time.Unix(int64(row.at), 0)
		if row.saw == missed {
			h.missed()
		} else if got := h.saw(row.saw, now); got != row.want {
			t.Errorf("row %d: %d, want %d", i, got, row.want)
		}
	}
}

// join opens a store of its own, as a process has one, and joins the replicas.
func join(t *testing.T, url string) *Replicas {
	r, _ := openRedis(t, url, nil)
	p := JoinReplicas(r, ReplicasOptions{})
	t.Cleanup(p.Close)
	return p
}

func TestReplicasCountEachOther(t *testing.T) {
	for name, url := range map[string]func(t *testing.T) string{
		"redis":    func(t *testing.T) string { return redistest.Start(t, redistest.Options{}).URL() },
		"cluster":  func(t *testing.T) string { return redistest.StartCluster(t, redistest.Options{}).URL() },
		"sentinel": func(t *testing.T) string { return redistest.StartSentinel(t, redistest.Options{}).URL() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := url(t)
			var all []*Replicas
			for range 3 {
				all = append(all, join(t, url))
			}
			for _, p := range all {
				await(t, "three are counted", func() bool { return p.Count() == 3 })
			}
			all[0].Close()
			all[0].Close() // again does no harm
			last := join(t, url)
			await(t, "the one that has left is not", func() bool { return last.count.Load() > 0 })
			if got := last.Count(); got != 3 {
				t.Errorf("%d, want 3", got)
			}
		})
	}
}

// An outage changes no count, also when Redis has forgotten everything.
func TestReplicasKeepTheCount(t *testing.T) {
	t.Parallel() // it waits for most of its time
	s := redistest.Start(t, redistest.Options{})
	a, b := join(t, s.URL()), join(t, s.URL())
	await(t, "two are counted", func() bool { return a.Count() == 2 && b.Count() == 2 })
	s.Kill()
	await(t, "Redis is away", func() bool { return a.redis.Ready() != nil && b.redis.Ready() != nil })
	b.Close() // without Redis that is quick, too
	if got := a.Count(); got != 2 {
		t.Errorf("%d without Redis, want 2", got)
	}
	s.Restart(t)
	await(t, "it is counted again", func() bool { return s.Do(t, "exists", replicasKey).(int64) == 1 })
	if got := a.Count(); got != 2 {
		t.Errorf("%d with an empty Redis, want 2", got)
	}
}

// A Redis that answers and takes no note is something to be told.
func TestReplicasTellWhenRefused(t *testing.T) {
	s := redistest.Start(t, redistest.Options{User: "limiter", Password: "secret"})
	s.Do(t, "acl", "setuser", "other", "on", ">secret", "+@all", "~other*")
	r, _ := openRedis(t, s.URL(), func(o *RedisOptions) { o.Server.Username = "other" })
	awaitReady(t, r)
	var log programtest.Journal
	p := JoinReplicas(r, ReplicasOptions{Log: slog.New(slog.NewTextHandler(&log, nil))})
	defer p.Close()
	await(t, "it is told", func() bool { return strings.Contains(log.String(), "takes no note") })
	if !strings.Contains(log.String(), "NOPERM") || p.Count() != 1 {
		t.Errorf("%d replicas, log: %s", p.Count(), log.String())
	}
}

// Who never met Redis goes by the setting.
func TestReplicasUnmet(t *testing.T) {
	r, _ := openRedis(t, "redis://"+programtest.FreeAddress(t), nil)
	reg := prometheus.NewRegistry()
	p := JoinReplicas(r, ReplicasOptions{Unmet: 4, Registerer: reg})
	defer p.Close()
	wantMetric(t, reg, "ratelimitd_replicas", 4)
}

// What is not renewed goes, also what Redis' clock has not come to yet, and
// whatever else stands in the key; and the key itself goes with the last.
func TestReplicasForgetTheSilent(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	r, _ := openRedis(t, s.URL(), nil)
	awaitReady(t, r)
	now := time.Now()
	member := func(name string, heard time.Time) string {
		return fmt.Sprintf("%-16s%s", name, binary.LittleEndian.AppendUint64(nil, math.Float64bits(float64(heard.UnixMicro()))))
	}
	for i, row := range []struct {
		key  string
		want int
	}{
		{"", 1},
		{member("live", now) + member("late", now.Add(-5*time.Second)), 3},
		{member("silent", now.Add(-11*time.Second)) + member("live", now), 2},
		{member("ahead", now.Add(time.Hour)), 1},
		{member("live", now) + "cut off", 2},
		{"something else entirely, and long enough", 1},
	} {
		p := &Replicas{redis: r, id: [16]byte{byte(i)}}
		s.Do(t, "set", replicasKey, row.key)
		if got, err := p.beat(t.Context(), true); err != nil || got != row.want {
			t.Errorf("row %d: %d, %v; want %d", i, got, err, row.want)
		}
		if ttl := s.Do(t, "pttl", replicasKey).(int64); ttl < 1 || ttl > goneAfter.Milliseconds() {
			t.Errorf("row %d: the key expires after %d ms", i, ttl)
		}
		if got, err := p.beat(t.Context(), false); err != nil || got != row.want-1 {
			t.Errorf("row %d, left: %d, %v; want %d", i, got, err, row.want-1)
		}
		if there := s.Do(t, "exists", replicasKey).(int64) == 1; there != (row.want > 1) {
			t.Errorf("row %d: the key is there: %v", i, there)
		}
	}
	s.Do(t, "del", replicasKey)
	s.Do(t, "rpush", replicasKey, "x")
	if got, err := (&Replicas{redis: r}).beat(t.Context(), true); err != nil || got != 1 {
		t.Errorf("in place of a list: %d, %v; want 1", got, err)
	}
}
