package compat

import (
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// statsd adds up the counters that are sent to it.
type statsd struct {
	port   int
	mu     sync.Mutex
	totals map[string]int64 // guarded by mu
}

// startStatsd listens on UDP until the test ends.
func startStatsd(t *testing.T) *statsd {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_, port, _ := net.SplitHostPort(conn.LocalAddr().String())
	s := &statsd{totals: map[string]int64{}}
	s.port, _ = strconv.Atoi(port)
	go func() {
		packet := make([]byte, 65_536)
		for {
			n, _, err := conn.ReadFrom(packet)
			if err != nil {
				return
			}
			s.add(string(packet[:n]))
		}
	}()
	return s
}

func (s *statsd) add(packet string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for line := range strings.SplitSeq(packet, "\n") {
		name, value, _ := strings.Cut(line, ":")
		if count, ok := strings.CutSuffix(value, "|c"); ok {
			n, _ := strconv.ParseInt(count, 10, 64)
			s.totals[name] += n
		}
	}
}

func (s *statsd) total(name string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.totals[name]
}

// env has the program send to it, and often.
func (s *statsd) env() []string {
	return []string{
		"DISABLE_STATS=false", "USE_STATSD=true", "STATSD_PROTOCOL=udp", "STATSD_HOST=127.0.0.1", "STATSD_PORT=" + strconv.Itoa(s.port), "STATS_FLUSH_INTERVAL=100ms",
	}
}
