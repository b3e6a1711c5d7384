package web

import (
	"bufio"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// crowded serves the public pages on few connections, with two more that take
// long: /slow ends with the test.
func crowded(t *testing.T, most int, patience time.Duration) (address string, c *crowd) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/", Public(Options{Ask: ask, MaxBody: 100, Metrics: prometheus.NewRegistry(), Health: func() Health { return Health{Ready: true} }}))
	mux.HandleFunc("/slow", func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-t.Context().Done():
		}
	})
	server := NewServer(mux, slog.New(slog.DiscardHandler))
	c = Bound(server, listener, most).(*crowd)
	c.patience = patience
	go func() { _ = server.Serve(c) }()
	t.Cleanup(func() { _ = server.Close() })
	return listener.Addr().String(), c
}

// say opens a connection and says something on it.
func say(t *testing.T, address, text string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	return conn
}

// numbers are those of the connections that the crowd has.
func (c *crowd) numbers() (idle, active int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.idle.Len(), c.active.Len()
}

func waitUntil(t *testing.T, what string, so func() bool) {
	t.Helper()
	for begin := time.Now(); !so(); time.Sleep(time.Millisecond) {
		if time.Since(begin) > 20*time.Second {
			t.Fatal("waited in vain: " + what)
		}
	}
}

// TestSilentClientsKeepOutNobody, nor do slow ones, whatever they hold up.
func TestSilentClientsKeepOutNobody(t *testing.T) {
	const probe = "GET /healthcheck HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
	for name, begin := range map[string]string{
		"silent":        "",
		"half a head":   "GET /healthcheck HTTP/1.1\r\nHost: x\r\n",
		"half a body":   "POST /json HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n{",
		"kept alive":    "GET /healthcheck HTTP/1.1\r\nHost: x\r\n\r\n",
		"a long answer": "GET /slow HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			address, c := crowded(t, 4, 20*time.Millisecond)
			for range 20 {
				say(t, address, begin)
			}
			waitUntil(t, "the crowd is full", func() bool { idle, active := c.numbers(); return idle+active == 4 })
			waitUntil(t, "a probe is answered", func() bool {
				answer, _ := bufio.NewReader(say(t, address, probe)).ReadString('\n')
				return strings.HasPrefix(answer, "HTTP/1.1 200")
			})
			if idle, active := c.numbers(); idle+active > 4 {
				t.Errorf("%d idle, %d active", idle, active)
			}
		})
	}
}

// TestRequestsThatAreQuickKeepTheirPlace: a further connection is closed.
func TestRequestsThatAreQuickKeepTheirPlace(t *testing.T) {
	address, c := crowded(t, 2, time.Hour)
	for range 2 {
		say(t, address, "GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
	}
	waitUntil(t, "both are answered", func() bool { _, active := c.numbers(); return active == 2 })
	if answer, err := io.ReadAll(say(t, address, "")); len(answer) > 0 || err != nil && !strings.Contains(err.Error(), "reset") {
		t.Errorf("the third gets %q, %v", answer, err)
	}
	if idle, active := c.numbers(); idle != 0 || active != 2 {
		t.Errorf("%d idle, %d active", idle, active)
	}
}

// TestPlacesAreGivenBack by connections that end.
func TestPlacesAreGivenBack(t *testing.T) {
	address, c := crowded(t, 3, time.Hour)
	for range 20 {
		conn := say(t, address, "GET /healthcheck HTTP/1.1\r\nHost: x\r\n\r\n")
		if _, err := bufio.NewReader(conn).ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		conn.Close()
	}
	waitUntil(t, "all places are free", func() bool { idle, active := c.numbers(); return idle+active == 0 })
}
