package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ratelimitd/ratelimitd/internal/programtest"
)

// Options says how a server is to be. The zero value is a server on a loopback
// port without a password.
type Options struct {
	// User and Password are asked of clients. With a User the default user is
	// off; without one the Password is the default user's.
	User, Password string

	// SentinelPassword is asked of the clients of a sentinel.
	SentinelPassword string

	// Replicas is how many each master of a Cluster has.
	Replicas int

	// TLS serves TLS only, and asks clients for a certificate of the same CA:
	// see [Server.Certificates].
	TLS bool

	// Certificates are those to serve TLS with; nil makes new ones.
	Certificates *Certificates

	// Unix serves on a unix socket only.
	Unix bool

	// Port is the port to serve on; 0 chooses a free one.
	Port int

	// Config holds more lines for the configuration file.
	Config []string
}

// Server is a running redis-server. Its methods may fail the test, so that
// they are for the test's own goroutine.
type Server struct {
	// Network is "tcp" or "unix"; Address is host:port or the socket's path.
	Network, Address string

	// Port is that of the address, 0 on a unix socket.
	Port int

	// Certificates are those of a server with TLS, else nil.
	Certificates *Certificates

	options  Options
	sentinel bool
	process  *process
	admin    *redis.Client
}

// Start starts a single server.
func Start(t testing.TB, options Options) *Server {
	t.Helper()
	return start(t, tempDir(t), options, nil)
}

// start starts a server in dir. configure, if not nil, returns more lines for
// the configuration, given a second free port.
func start(t testing.TB, dir string, options Options, configure func(extraPort int) []string) *Server {
	t.Helper()
	s := &Server{options: options, process: &process{binary: binary(t, "redis-server")}}
	s.Certificates = options.withCertificates(t).Certificates
	t.Cleanup(s.process.kill)
	const tries = 10 // a port that was free may be taken by the time redis binds it
	for try := range tries {
		s.place(t, dir, configure)
		if err := s.process.start(); err != nil {
			t.Fatal(err)
		}
		if s.answers(t) {
			break
		}
		if try == tries-1 {
			t.Fatalf("redis-server does not start:\n%s", s.process.log())
		}
	}
	s.admin = s.Client()
	t.Cleanup(func() { _ = s.admin.Close() })
	return s
}

// place chooses an address and writes the configuration for it.
func (s *Server) place(t testing.TB, dir string, configure func(int) []string) {
	lines := []string{
		"bind 127.0.0.1", "dir " + dir, `save ""`, "appendonly no", "logfile \"\"", "databases 4",
		"repl-diskless-sync yes", "repl-diskless-sync-delay 0", "hz 100", "protected-mode no",
	}
	ports := [2]int{programtest.FreePort(t), programtest.FreePort(t)}
	if s.options.Port != 0 {
		ports[0] = s.options.Port
	}
	switch {
	case s.options.Unix:
		s.Network, s.Address = "unix", filepath.Join(dir, "redis.sock")
		lines = append(lines, "port 0", "unixsocket "+s.Address)
	default:
		s.listen(ports[0])
		lines = append(lines, s.portLines()...)
	}
	switch {
	case s.options.User != "":
		lines = append(lines, "user default off", fmt.Sprintf("user %s on >%s ~* &* +@all", s.options.User, s.options.Password))
	case s.options.Password != "":
		lines = append(lines, "requirepass "+s.options.Password)
	}
	lines = append(lines, s.options.Config...)
	if configure != nil {
		lines = append(lines, configure(ports[1])...)
	}
	s.process.args = []string{writeConfig(t, dir, "redis.conf", lines)}
}

// portLines are those about the port.
func (s *Server) portLines() []string {
	port := strconv.Itoa(s.Port)
	if c := s.Certificates; c != nil {
		return []string{
			"port 0", "tls-port " + port, "tls-auth-clients yes",
			"tls-cert-file " + c.ServerCert, "tls-key-file " + c.ServerKey, "tls-ca-cert-file " + c.CA,
		}
	}
	return []string{"port " + port}
}

// withCertificates returns options that have certificates if they need some.
func (o Options) withCertificates(t testing.TB) Options {
	t.Helper()
	if o.TLS && o.Certificates == nil {
		o.Certificates = NewCertificates(t, tempDir(t))
	}
	return o
}

func (s *Server) listen(port int) {
	s.Network, s.Address, s.Port = "tcp", "127.0.0.1:"+strconv.Itoa(port), port
}

// answers waits until the server answers; false when it has ended instead.
func (s *Server) answers(t testing.TB) bool {
	t.Helper()
	alive := true
	waitFor(t, "redis-server listens", func() bool {
		alive = s.process.alive()
		conn, err := net.Dial(s.Network, s.Address)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil || !alive
	})
	if !alive {
		return false
	}
	client := s.Client()
	defer client.Close()
	waitFor(t, "redis-server answers PING", func() bool { return client.Ping(context.Background()).Err() == nil })
	return true
}

// ClientOptions are what go-redis needs to reach the server.
func (s *Server) ClientOptions() *redis.Options {
	options := &redis.Options{
		Network: s.Network, Addr: s.Address,
		Username: s.options.User, Password: s.options.Password,
		Protocol: 2, DisableIdentity: true, MaxRetries: -1, DialerRetries: 1,
		DialTimeout: time.Second, ReadTimeout: 5 * time.Second,
	}
	if s.Certificates != nil {
		options.TLSConfig = s.Certificates.Client
	}
	return options
}

// Client returns a new client for the server. The caller closes it.
func (s *Server) Client() *redis.Client { return redis.NewClient(s.ClientOptions()) }

// URL returns the server's address as ratelimitd's settings take it: redis://,
// rediss:// or unix://, with user and password.
func (s *Server) URL() string {
	u := url.URL{Scheme: "redis", Host: s.Address}
	if s.options.TLS {
		u.Scheme = "rediss"
	}
	if s.options.Unix {
		u = url.URL{Scheme: "unix", Path: s.Address}
	}
	if s.options.Password != "" {
		u.User = url.UserPassword(s.options.User, s.options.Password)
	}
	return u.String()
}

// Do runs a command on the server and returns its reply; an error fails the
// test.
func (s *Server) Do(t testing.TB, args ...any) any {
	t.Helper()
	reply, err := s.admin.Do(context.Background(), args...).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		t.Fatalf("redis %v: %v", args, err)
	}
	return reply
}

// Keys returns how many keys the server holds.
func (s *Server) Keys(t testing.TB) int {
	t.Helper()
	return int(s.Do(t, "dbsize").(int64))
}

// Calls returns how often the server has run a command since it started, by
// its own statistics: for counting round trips.
func (s *Server) Calls(t testing.TB, command string) int {
	t.Helper()
	info, err := s.admin.InfoMap(context.Background(), "commandstats").Result()
	if err != nil {
		t.Fatalf("redis info: %v", err)
	}
	stats := info["Commandstats"]["cmdstat_"+command]
	var calls int
	_, _ = fmt.Sscanf(stats, "calls=%d", &calls) // absent: never called
	return calls
}

// Pause stops the server's process: it accepts connections and answers
// nothing. Resume lets it go on.
func (s *Server) Pause() { s.process.signal(syscall.SIGSTOP) }

// Resume ends a Pause.
func (s *Server) Resume() { s.process.signal(syscall.SIGCONT) }

// Kill ends the server at once, as a crash does.
func (s *Server) Kill() { s.process.kill() }

// Restart starts the server again after a Kill, at the same address and with
// no data, and waits until it answers.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.process.kill()
	if err := s.process.start(); err != nil {
		t.Fatal(err)
	}
	if !s.answers(t) {
		t.Fatalf("redis-server does not start again:\n%s", s.process.log())
	}
}
