package redistest

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"maps"
	"net"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ratelimitd/ratelimitd/internal/programtest"
)

// MemcachedOptions says how a memcached is to be. The zero value is one on a
// loopback port.
type MemcachedOptions struct {
	// Port is the port to serve on; 0 chooses a free one.
	Port int

	// Unix serves on a unix socket only. TLS serves TLS only, and asks clients for
	// a certificate of the same CA.
	Unix, TLS bool

	// Args are further arguments.
	Args []string
}

// Memcached is a running memcached. Its methods may fail the test, so that they are
// for the test's own goroutine.
type Memcached struct {
	// Address is host:port or the socket's path.
	Address string

	// Certificates are those of a server with TLS, else nil.
	Certificates *Certificates

	network string
	process *process
}

// StartMemcached starts a memcached.
func StartMemcached(t testing.TB, options MemcachedOptions) *Memcached {
	t.Helper()
	dir := tempDir(t)
	m := &Memcached{process: &process{binary: binary(t, "memcached")}}
	common := append([]string{"-U", "0", "-m", "64", "-t", "2", "-c", "1024"}, options.Args...)
	if me, err := user.Current(); err == nil && me.Uid == "0" {
		common = append(common, "-u", "root") // it asks root for another name
	}
	if options.TLS {
		m.Certificates = NewCertificates(t, dir)
		c := m.Certificates
		common = append(common, "-Z", "-o", fmt.Sprintf("ssl_chain_cert=%s,ssl_key=%s,ssl_ca_cert=%s,ssl_verify_mode=2", c.ServerCert, c.ServerKey, c.CA))
	}
	t.Cleanup(m.process.kill)
	const tries = 10 // a port that was free may be taken by the time memcached binds it
	for range tries {
		port := options.Port
		if port == 0 {
			port = programtest.FreePort(t)
		}
		m.network, m.Address = "tcp", fmt.Sprintf("127.0.0.1:%d", port)
		m.process.args = append([]string{"-l", "127.0.0.1", "-p", fmt.Sprint(port)}, common...)
		if options.Unix {
			m.network, m.Address = "unix", filepath.Join(dir, "memcached.sock")
			m.process.args = append([]string{"-s", m.Address}, common...)
		}
		if err := m.process.start(); err != nil {
			t.Fatal(err)
		}
		if m.answers(t) {
			return m
		}
	}
	t.Fatalf("memcached does not start:\n%s", m.process.log())
	return nil
}

// answers waits until the server answers; false when it has ended instead.
func (m *Memcached) answers(t testing.TB) bool {
	t.Helper()
	alive := true
	waitFor(t, "memcached answers", func() bool {
		if alive = m.process.alive(); !alive {
			return true
		}
		lines, err := m.do("version")
		return err == nil && strings.HasPrefix(lines[0], "VERSION")
	})
	return alive
}

// do sends a command and returns the lines of the answer. The last of them is END,
// or says what became of something else.
func (m *Memcached) do(command string) ([]string, error) {
	conn, err := m.dial()
	if err != nil {
		return nil, fmt.Errorf("memcached %s: %w", command, err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, fmt.Errorf("memcached %s: %w", command, err)
	}
	if _, err := fmt.Fprintf(conn, "%s\r\n", command); err != nil {
		return nil, fmt.Errorf("memcached %s: %w", command, err)
	}
	var lines []string
	for scanner := bufio.NewScanner(conn); scanner.Scan(); {
		line := scanner.Text()
		lines = append(lines, line)
		switch first, _, _ := strings.Cut(line, " "); first {
		case "END", "OK", "VERSION", "STORED", "NOT_STORED", "DELETED", "NOT_FOUND", "BUSY", "ERROR", "CLIENT_ERROR", "SERVER_ERROR":
			return lines, nil
		}
	}
	return nil, fmt.Errorf("memcached %s: the answer ends after %q", command, lines)
}

func (m *Memcached) dial() (net.Conn, error) {
	if m.Certificates == nil {
		return net.DialTimeout(m.network, m.Address, time.Second)
	}
	return tls.DialWithDialer(&net.Dialer{Timeout: time.Second}, m.network, m.Address, m.Certificates.Client)
}

// Do runs a command and returns the lines of the answer.
func (m *Memcached) Do(t testing.TB, command string) []string {
	t.Helper()
	lines, err := m.do(command)
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// Set stores a value that does not expire.
func (m *Memcached) Set(t testing.TB, key, value string) {
	t.Helper()
	if got := m.Do(t, fmt.Sprintf("set %s 0 0 %d\r\n%s", key, len(value), value)); got[0] != "STORED" {
		t.Fatalf("memcached set: %q", got)
	}
}

// Expiries returns the keys that the server holds, each with the second since 1970
// at which it expires, -1 for never. A list of memcached's leaves out what is in use
// that moment: it is asked for until it has as many keys as are counted, or has
// been the same for a while, since what has expired may be counted still.
func (m *Memcached) Expiries(t testing.TB) map[string]int64 {
	t.Helper()
	const while = 300 * time.Millisecond
	last, since := m.dump(t), time.Now()
	waitFor(t, "memcached lists its keys", func() bool {
		if len(last) == m.counted(t) || time.Since(since) > while {
			return true
		}
		before := last
		if last = m.dump(t); !maps.Equal(before, last) {
			since = time.Now()
		}
		return false
	})
	return last
}

// counted is how many keys the server counts, of which some may have expired.
func (m *Memcached) counted(t testing.TB) int {
	t.Helper()
	for _, line := range m.Do(t, "stats") {
		if text, found := strings.CutPrefix(line, "STAT curr_items "); found {
			n, _ := strconv.Atoi(text) // what is no number is none of the list's
			return n
		}
	}
	return -1
}

func (m *Memcached) dump(t testing.TB) map[string]int64 {
	t.Helper()
	var lines []string
	waitFor(t, "memcached lists its keys", func() bool { // it may be looking for expired ones
		lines = m.Do(t, "lru_crawler metadump all")
		return !strings.HasPrefix(lines[0], "BUSY")
	})
	all := make(map[string]int64)
	for _, line := range lines {
		var key string
		var expires int64
		if n, _ := fmt.Sscanf(line, "key=%s exp=%d", &key, &expires); n == 2 {
			all[key] = expires
		}
	}
	return all
}

// Keys returns how many keys the server holds that have not expired.
func (m *Memcached) Keys(t testing.TB) int {
	t.Helper()
	return len(m.Expiries(t))
}

// Pause stops the server's process: it accepts connections and answers nothing.
// Resume lets it go on.
func (m *Memcached) Pause() { m.process.signal(syscall.SIGSTOP) }

// Resume ends a Pause.
func (m *Memcached) Resume() { m.process.signal(syscall.SIGCONT) }

// Kill ends the server at once, as a crash does.
func (m *Memcached) Kill() { m.process.kill() }

// Restart starts the server again after a Kill, at the same address and with no
// data, and waits until it answers.
func (m *Memcached) Restart(t testing.TB) {
	t.Helper()
	m.process.kill()
	if err := m.process.start(); err != nil {
		t.Fatal(err)
	}
	if !m.answers(t) {
		t.Fatalf("memcached does not start again:\n%s", m.process.log())
	}
}
