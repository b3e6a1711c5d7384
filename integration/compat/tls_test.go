package compat

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/ratelimitd/ratelimitd/internal/redistest"
)

// secured is the environment of gRPC over TLS with these files.
func secured(cert, key, ca string) []string {
	return []string{
		"GRPC_SERVER_USE_TLS=true", "GRPC_SERVER_TLS_CERT=" + cert, "GRPC_SERVER_TLS_KEY=" + key,
		"GRPC_CLIENT_TLS_CACERT=" + ca, "GRPC_CLIENT_TLS_SAN=localhost",
	}
}

// dial returns a connection that is made when it is used first.
func (s *server) dial(t *testing.T, c credentials.TransportCredentials) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(s.grpc, grpc.WithTransportCredentials(c))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// call makes one call, and says who answered on which connection.
func call(ctx context.Context, conn *grpc.ClientConn) (*peer.Peer, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	answered := &peer.Peer{}
	_, err := rlsv3.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, &rlsv3.RateLimitRequest{
		Domain: "any", Descriptors: []*ratelimitv3.RateLimitDescriptor{{Entries: []*ratelimitv3.RateLimitDescriptor_Entry{{Key: "a", Value: "b"}}}},
	}, grpc.Peer(answered))
	return answered, err
}

func Test_mTLS(t *testing.T) {
	store, files, others := redis(t), redistest.NewCertificates(t, t.TempDir()), redistest.NewCertificates(t, t.TempDir())
	env := append(secured(files.ServerCert, files.ServerKey, files.CA), store...)
	s := start(t, env...)
	if _, err := call(t.Context(), s.dial(t, credentials.NewTLS(files.Client))); err != nil {
		t.Errorf("a client with a certificate: %v", err)
	}
	for cert, want := range map[string]string{files.ClientCert: "response:", others.ClientCert: "-grpc-cert-file, -grpc-key-file: "} {
		out, _ := named("ratelimit_client", "-dial_string", s.grpc, "-domain", "any", "-descriptors", "a=b", "-grpc-use-tls",
			"-grpc-server-ca-file", files.CA, "-grpc-cert-file", cert, "-grpc-key-file", files.ClientKey).CombinedOutput()
		if !strings.Contains(string(out), want) {
			t.Errorf("ratelimit_client with %s: %s", cert, out)
		}
	}
	refused := func(what string, s *server, c credentials.TransportCredentials) {
		t.Helper()
		if _, err := call(t.Context(), s.dial(t, c)); status.Code(err) != codes.Unavailable {
			t.Errorf("%s: %v", what, err)
		}
	}
	bare, foreign := files.Client.Clone(), files.Client.Clone()
	bare.Certificates, foreign.Certificates = nil, others.Client.Certificates
	refused("no certificate", s, credentials.NewTLS(bare))
	refused("a certificate of a foreign authority", s, credentials.NewTLS(foreign))
	refused("no TLS", s, insecure.NewCredentials())
	refused("a server of a foreign authority", s, credentials.NewTLS(others.Client))
	refused("a certificate for another name", start(t, append(env, "GRPC_CLIENT_TLS_SAN=envoy.example")...), credentials.NewTLS(files.Client))
}

func TestReloadGRPCServerCerts(t *testing.T) {
	files, renewed := redistest.NewCertificates(t, t.TempDir()), redistest.NewCertificates(t, t.TempDir())
	s := start(t, append(secured(files.ServerCert, files.ServerKey, files.CA), redis(t)...)...)
	open := s.dial(t, credentials.NewTLS(files.Client))
	if _, err := call(t.Context(), open); err != nil {
		t.Fatal(err)
	}
	rename(t, renewed.ServerCert, files.ServerCert)
	rename(t, renewed.ServerKey, files.ServerKey)
	begin := time.Now()
	both := files.Client.Clone()
	both.RootCAs = authorities(t, files.CA, renewed.CA)
	answered, err := call(t.Context(), s.dial(t, credentials.NewTLS(both)))
	if err != nil {
		t.Fatal(err)
	}
	if got := shown(answered); !bytes.Equal(got, leaf(t, files.ServerCert)) {
		t.Error("the certificate is still the old one")
	}
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	if _, err := call(t.Context(), open); err != nil {
		t.Errorf("on the connection of before: %v", err)
	}
}

// Certificates, key and authority are replaced in all ways in which that is done, also badly, while clients call on connections
// that are open and on new ones. No call fails, no open connection ends, and new ones soon see what is new.
func TestCertificatesAreReplacedUnderLoad(t *testing.T) {
	a, b := redistest.NewCertificates(t, t.TempDir()), redistest.NewCertificates(t, t.TempDir())
	m := newMount(t)
	m.swap(t, a.ServerCert, a.ServerKey, a.CA)
	s := start(t, append(secured(m.path("tls.crt"), m.path("tls.key"), m.path("ca.crt")), redis(t)...)...)
	l := startLoad(t, s, a, b)
	certA, keyA, certB, keyB := read(t, a.ServerCert), read(t, a.ServerKey), read(t, b.ServerCert), read(t, b.ServerKey)

	l.shows(t, "at first", a.ServerCert)
	m.swap(t, a.ServerCert, a.ServerKey, a.CA, b.CA)
	m.swap(t, b.ServerCert, b.ServerKey, a.CA, b.CA)
	l.shows(t, "after a ConfigMap has changed", b.ServerCert)

	m.write(t, "tls.crt", certA[:len(certA)/2])
	l.shows(t, "with half a certificate", b.ServerCert)
	m.write(t, "tls.crt", certA)
	l.shows(t, "with a certificate that does not fit its key", b.ServerCert)
	m.write(t, "tls.key", keyA)
	l.shows(t, "after files were written", a.ServerCert)

	m.rename(t, "tls.crt", certB)
	l.shows(t, "after one of two files was renamed", a.ServerCert)
	m.rename(t, "tls.key", keyB)
	l.shows(t, "after both files were renamed", b.ServerCert)

	m.write(t, "ca.crt", append(read(t, b.CA), read(t, a.CA)[:100]...))
	l.shows(t, "with half of the authorities", b.ServerCert)
	l.client.Store(l.configuration(b))
	l.shows(t, "to clients of the new authority", b.ServerCert)
	m.swap(t, b.ServerCert, b.ServerKey, b.CA)
	l.shows(t, "when the old authority is gone", b.ServerCert)
	if _, err := call(t.Context(), s.dial(t, credentials.NewTLS(l.configuration(a)))); status.Code(err) != codes.Unavailable {
		t.Errorf("a new connection of the old authority: %v", err)
	}
	l.stop(t)
}

// load is clients that call again and again.
type load struct {
	roots  *x509.CertPool
	client atomic.Pointer[tls.Config] // of new connections
	calls  atomic.Int64               // on open connections
	fresh  chan []byte                // what each new connection was shown
	ended  chan struct{}              // gets one from each client
	stop   func(t *testing.T)
}

const openConnections = 3

func startLoad(t *testing.T, s *server, first, second *redistest.Certificates) *load {
	t.Helper()
	l := &load{roots: authorities(t, first.CA, second.CA), fresh: make(chan []byte), ended: make(chan struct{})}
	l.client.Store(l.configuration(first))
	ctx, cancel := context.WithCancel(t.Context())
	for range openConnections {
		conn := s.dial(t, credentials.NewTLS(l.configuration(first)))
		at, err := call(ctx, conn)
		if err != nil {
			t.Fatal(err)
		}
		go l.callOn(ctx, t, conn, at.LocalAddr.String())
	}
	go l.connect(ctx, t, s)
	l.stop = func(t *testing.T) {
		cancel()
		for range openConnections + 1 {
			<-l.ended
		}
		if n := l.calls.Load(); n < 100 {
			t.Errorf("%d calls on open connections", n)
		}
	}
	t.Cleanup(cancel)
	return l
}

// configuration is that of a client with the certificate.
func (l *load) configuration(c *redistest.Certificates) *tls.Config {
	config := c.Client.Clone()
	config.RootCAs = l.roots
	return config
}

// callOn calls on a connection, which must stay.
func (l *load) callOn(ctx context.Context, t *testing.T, conn *grpc.ClientConn, from string) {
	defer func() { l.ended <- struct{}{} }()
	for ctx.Err() == nil {
		answered, err := call(context.WithoutCancel(ctx), conn)
		switch {
		case err != nil:
			t.Errorf("on an open connection: %v", err)
		case answered.LocalAddr.String() != from:
			t.Errorf("an open connection, from %s, was closed", from)
			return
		}
		l.calls.Add(1)
		time.Sleep(time.Millisecond) // the machine has others to serve
	}
}

// connect calls once on one new connection after the other.
func (l *load) connect(ctx context.Context, t *testing.T, s *server) {
	defer func() { l.ended <- struct{}{} }()
	for ctx.Err() == nil {
		conn, err := grpc.NewClient(s.grpc, grpc.WithTransportCredentials(credentials.NewTLS(l.client.Load())))
		if err != nil {
			t.Error(err)
			return
		}
		answered, err := call(context.WithoutCancel(ctx), conn)
		if err != nil {
			t.Errorf("on a new connection: %v", err)
		}
		_ = conn.Close()
		select {
		case l.fresh <- shown(answered):
		case <-ctx.Done():
		}
	}
}

// shows wants a certificate to be shown to connections that are made from now on.
func (l *load) shows(t *testing.T, when, cert string) {
	t.Helper()
	<-l.fresh // this one may have begun before
	for range 3 {
		if !bytes.Equal(<-l.fresh, leaf(t, cert)) {
			t.Errorf("%s: another certificate is shown", when)
		}
	}
}

// shown is the certificate of the server that answered.
func shown(p *peer.Peer) []byte {
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.PeerCertificates) == 0 {
		return nil
	}
	return info.State.PeerCertificates[0].Raw
}

// leaf is the certificate of a file.
func leaf(t *testing.T, path string) []byte {
	t.Helper()
	block, _ := pem.Decode(read(t, path))
	if block == nil {
		t.Fatalf("%s holds no certificate", path)
	}
	return block.Bytes
}

func authorities(t *testing.T, paths ...string) *x509.CertPool {
	t.Helper()
	pool := x509.NewCertPool()
	for _, path := range paths {
		pool.AppendCertsFromPEM(read(t, path))
	}
	return pool
}

// mount is a directory as Kubernetes mounts a ConfigMap or a Secret: names that lead through one link, which is swapped.
type mount struct {
	dir      string
	versions int
}

func newMount(t *testing.T) *mount {
	t.Helper()
	m := &mount{dir: t.TempDir()}
	for _, name := range []string{"tls.crt", "tls.key", "ca.crt"} {
		if err := os.Symlink(filepath.Join("..data", name), m.path(name)); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

func (m *mount) path(name string) string { return filepath.Join(m.dir, name) }

// swap replaces all files at once.
func (m *mount) swap(t *testing.T, cert, key string, cas ...string) {
	t.Helper()
	m.versions++
	version := fmt.Sprint("..", m.versions)
	var ca []byte
	for _, path := range cas {
		ca = append(ca, read(t, path)...)
	}
	for name, text := range map[string][]byte{"tls.crt": read(t, cert), "tls.key": read(t, key), "ca.crt": ca} {
		write(t, filepath.Join(m.dir, version, name), string(text))
	}
	old, _ := os.Readlink(m.path("..data")) // none at first
	if err := os.Symlink(version, m.path("..data_tmp")); err != nil {
		t.Fatal(err)
	}
	rename(t, m.path("..data_tmp"), m.path("..data"))
	if old != "" {
		_ = os.RemoveAll(m.path(old))
	}
}

// write overwrites one file in its place.
func (m *mount) write(t *testing.T, name string, text []byte) {
	t.Helper()
	if err := os.WriteFile(m.path(name), text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// rename puts one file in the place of another.
func (m *mount) rename(t *testing.T, name string, text []byte) {
	t.Helper()
	write(t, filepath.Join(m.dir, "..data", name), string(text))
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
