package compat

import (
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// statsd adds up the counters that are sent to it, and keeps the last value of gauges.
type statsd struct {
	port   int
	mu     sync.Mutex
	totals map[string]int64  // guarded by mu, as are gauges and kinds
	gauges map[string]int64  // by name
	kinds  map[string]string // of each metric that was sent: c, g or ms
}

// startStatsd listens on UDP until the test ends.
func startStatsd(t *testing.T) *statsd {
	t.Helper()
	s := &statsd{totals: map[string]int64{}, gauges: map[string]int64{}, kinds: map[string]string{}}
	s.port = listenUDP(t, s.add)
	return s
}

// listenUDP takes packets until the test ends, and returns the port.
func listenUDP(t *testing.T, take func(packet string)) int {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	go func() {
		for packet := make([]byte, 65_536); ; {
			n, _, err := conn.ReadFrom(packet)
			if err != nil {
				return
			}
			take(string(packet[:n]))
		}
	}()
	return conn.LocalAddr().(*net.UDPAddr).Port
}

func (s *statsd) add(packet string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for line := range strings.SplitSeq(packet, "\n") {
		name, rest, found := strings.Cut(line, ":")
		if !found {
			continue
		}
		value, kind, _ := strings.Cut(rest, "|")
		kind, _, _ = strings.Cut(kind, "|") // the rate of a sample
		s.kinds[name] = kind
		switch n, _ := strconv.ParseInt(value, 10, 64); kind {
		case "c":
			s.totals[name] += n
		case "g":
			s.gauges[name] = n
		}
	}
}

// gauge returns the last value of a gauge, 0 if it was never sent.
func (s *statsd) gauge(name string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gauges[name]
}

// sent returns what was sent so far, as lines of name and kind.
func (s *statsd) sent() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for name, kind := range s.kinds {
		all = append(all, name+" "+kind)
	}
	slices.Sort(all)
	return all
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
