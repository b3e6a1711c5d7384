package xds

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/ratelimitd/ratelimitd/internal/certificates"
	"github.com/ratelimitd/ratelimitd/internal/redistest"
	"github.com/ratelimitd/ratelimitd/internal/xdstest"
	"github.com/ratelimitd/ratelimitd/pkg/descriptors"
	"github.com/ratelimitd/ratelimitd/pkg/xds/resource"
)

// config reads a resource from JSON.
func config(t testing.TB, text string) *ratelimitv3.RateLimitConfig {
	t.Helper()
	c := &ratelimitv3.RateLimitConfig{}
	if err := protojson.Unmarshal([]byte(text), c); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return c
}

// receiver runs a client and keeps what it hands on.
type receiver struct {
	*Client
	registry *prometheus.Registry
	stop     func() // tells it to stop and waits until it has

	mu      sync.Mutex
	applied []string // the names of each set of policies
	log     bytes.Buffer
}

// receive runs a client that comes back soon, with the options changed.
func receive(t *testing.T, server string, change ...func(*Options)) *receiver {
	t.Helper()
	r := &receiver{registry: prometheus.NewRegistry()}
	o := Options{
		Server: server, NodeID: "envoy-ratelimit", Backoff: Backoff{Initial: 10 * time.Millisecond, Max: 100 * time.Millisecond},
		Apply: r.apply, Registerer: r.registry, Log: slog.New(slog.NewTextHandler(r, nil)),
	}
	for _, f := range change {
		f(&o)
	}
	client, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	r.Client = client
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		client.Run(ctx)
	}()
	r.stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(func() {
		r.stop()
		if t.Failed() {
			t.Logf("log:\n%s", r.logged())
		}
	})
	return r
}

// apply takes what compiles.
func (r *receiver) apply(files []descriptors.File) error {
	if _, err := descriptors.Compile(files, descriptors.Options{}); err != nil {
		return err
	}
	names := make([]string, len(files))
	for i, file := range files {
		names[i] = file.Name
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.applied = append(r.applied, "["+strings.Join(names, " ")+"]")
	return nil
}

func (r *receiver) history() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.applied, " ")
}

// Write is for the log.
func (r *receiver) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.Write(p)
}

func (r *receiver) logged() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.String()
}

// tells reports whether there is no stream, for a reason with that text.
func (r *receiver) tells(text string) bool {
	err := r.Err()
	return err != nil && strings.Contains(err.Error(), text)
}

func (r *receiver) metric(t *testing.T, name, result string) float64 {
	t.Helper()
	families, err := r.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == name && (result == "" || m.GetLabel()[0].GetValue() == result) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	t.Fatalf("no metric %s %s", name, result)
	return 0
}

// eventually waits until a condition holds. It is patient, for the machine may
// be busy.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still not so: %s", what)
		}
	}
}

// named is a good resource.
func named(t testing.TB, name string) *ratelimitv3.RateLimitConfig {
	return config(t, fmt.Sprintf(`{"name": %q, "domain": %q, "descriptors": [{"key": "k", "rate_limit": {"unit": "HOUR", "requests_per_unit": 1}}]}`, name, name))
}

// faulty is a resource that is refused.
func faulty(t testing.TB) *ratelimitv3.RateLimitConfig {
	return config(t, `{"name": "bad", "domain": "bad", "descriptors": [{"key": "k", "rate_limit": {"requests_per_unit": 1}}]}`)
}

const refusal = "bad: descriptors[0].rate_limit: unit is missing; one of second, minute, hour, day, week, month, year, or window with a duration as in 30s"

func TestStatesAreTakenAndRefusedAsAWhole(t *testing.T) {
	plane := xdstest.Start(t, xdstest.Options{})
	r := receive(t, plane.Address)
	for i, step := range []struct {
		configs []*ratelimitv3.RateLimitConfig
		want    string // all that was handed on
		refused bool
	}{
		{[]*ratelimitv3.RateLimitConfig{named(t, "a")}, "[a]", false},
		{[]*ratelimitv3.RateLimitConfig{named(t, "b"), named(t, "a")}, "[a] [a b]", false},
		{[]*ratelimitv3.RateLimitConfig{named(t, "c"), faulty(t)}, "[a] [a b]", true},
		{[]*ratelimitv3.RateLimitConfig{named(t, "d")}, "[a] [a b] [d]", false},
		{nil, "[a] [a b] [d] []", false},
	} {
		version := fmt.Sprint(i + 1)
		plane.Set(t, version, step.configs...)
		if step.refused {
			eventually(t, "version "+version+" is refused", func() bool { return plane.Refusal() == refusal })
		} else {
			eventually(t, "version "+version+" is acknowledged", func() bool { return plane.Acknowledged(version) })
		}
		if got := r.history(); got != step.want {
			t.Errorf("version %s: handed on %s, want %s", version, got, step.want)
		}
	}
	for _, request := range plane.Requests() {
		if request.GetErrorDetail() != nil && (request.GetVersionInfo() != "2" || request.GetErrorDetail().GetCode() != 3) {
			t.Errorf("refused with %v, want the version in force and InvalidArgument", request)
		}
	}
	if acknowledged, refused := r.metric(t, "ratelimitd_xds_responses_total", "acknowledged"), r.metric(t, "ratelimitd_xds_responses_total", "refused"); acknowledged != 4 || refused == 0 {
		t.Errorf("counted %v and %v", acknowledged, refused)
	}
	if n := strings.Count(r.logged(), "level=ERROR"); n != 1 {
		t.Errorf("%d lines tell of one refusal", n)
	}
}

// go-control-plane sends a refused state again at once. That is not answered
// as fast as it comes, and another state is still taken soon.
func TestARefusedStateIsNoStorm(t *testing.T) {
	plane := xdstest.Start(t, xdstest.Options{})
	plane.Set(t, "1", faulty(t))
	receive(t, plane.Address)
	eventually(t, "it is refused three times", func() bool { return len(plane.Requests()) >= 4 })
	begin := time.Now()
	plane.Set(t, "2", named(t, "a"))
	eventually(t, "the good state is acknowledged", func() bool { return plane.Acknowledged("2") })
	if n, most := len(plane.Requests()), 6+int(time.Since(begin)/firstPause); n > most {
		t.Errorf("%d requests, want %d at most", n, most)
	}
}

func TestWhoAsks(t *testing.T) {
	plane := xdstest.Start(t, xdstest.Options{Node: "node"})
	r := receive(t, plane.Address, func(o *Options) {
		o.NodeID, o.Version = "node", "1.2.3"
		o.NodeMetadata = map[string]string{"zone": "a", "team": "b"}
		o.Headers = map[string]string{"Authorization": "Bearer x"}
	})
	eventually(t, "it asks", func() bool { return len(plane.Requests()) == 1 })
	request := plane.Requests()[0]
	if node := request.GetNode(); node.GetId() != "node" || node.GetUserAgentName() != "ratelimitd" || node.GetUserAgentVersion() != "1.2.3" ||
		fmt.Sprint(node.GetMetadata().AsMap()) != "map[team:b zone:a]" {
		t.Errorf("the node is %v", node)
	}
	if request.GetTypeUrl() != resource.TypeURL || request.GetVersionInfo() != "" || request.GetResponseNonce() != "" || len(request.GetResourceNames()) != 0 {
		t.Errorf("the first request is %v", request)
	}
	if got := plane.Headers()[0].Get("authorization"); len(got) != 1 || got[0] != "Bearer x" {
		t.Errorf("the header is %q", got)
	}
	// A control plane that has nothing to say yet is one that is there.
	eventually(t, "it is connected", func() bool { return r.Err() == nil })
	if r.metric(t, "ratelimitd_xds_connected", "") != 1 {
		t.Error("the metric says that it is not")
	}
}

// A control plane that has started anew counts its versions from 1 again, with
// other contents: they are asked for without a version, and taken.
func TestTheControlPlaneComesBack(t *testing.T) {
	plane := xdstest.Start(t, xdstest.Options{})
	plane.Set(t, "1", named(t, "a"))
	r := receive(t, plane.Address)
	eventually(t, "the first state is acknowledged", func() bool { return plane.Acknowledged("1") })

	plane.Stop()
	eventually(t, "the loss is noticed", func() bool { return r.Err() != nil })
	if r.metric(t, "ratelimitd_xds_connected", "") != 0 {
		t.Error("the metric says that it is connected")
	}
	eventually(t, "it is tried again", func() bool { return strings.Count(r.logged(), "level=WARN") >= 3 })

	again := xdstest.Start(t, xdstest.Options{Address: plane.Address})
	again.Set(t, "1", named(t, "b"))
	eventually(t, "the other state is acknowledged", func() bool { return again.Acknowledged("1") })
	if got := r.history(); got != "[a] [b]" {
		t.Errorf("handed on %s", got)
	}
	if r.Err() != nil {
		t.Error(r.Err())
	}
}

func TestUnixSocket(t *testing.T) {
	plane := xdstest.Start(t, xdstest.Options{Address: "unix:" + t.TempDir() + "/xds"})
	plane.Set(t, "1", named(t, "a"))
	r := receive(t, plane.Address)
	eventually(t, "a state is taken", func() bool { return r.history() == "[a]" })
}

// mutual is the TLS of a server as Envoy Gateway's: it reads its files at each
// handshake and wants a client's certificate.
func mutual(c *redistest.Certificates, most uint16) *tls.Config {
	return &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		pair, err := tls.LoadX509KeyPair(c.ServerCert, c.ServerKey)
		if err != nil {
			return nil, err
		}
		pem, err := os.ReadFile(c.CA)
		if err != nil {
			return nil, err
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(pem)
		return &tls.Config{
			Certificates: []tls.Certificate{pair}, ClientCAs: roots, ClientAuth: tls.RequireAndVerifyClientCert,
			MaxVersion: most, NextProtos: []string{"h2"},
		}, nil
	}}
}

func secured(c *redistest.Certificates) func(*Options) {
	return func(o *Options) {
		o.TLS = &TLS{Files: certificates.Files{CA: c.CA, Cert: c.ClientCert, Key: c.ClientKey}}
	}
}

func TestMutualTLS(t *testing.T) {
	files := redistest.NewCertificates(t, t.TempDir())
	others := redistest.NewCertificates(t, t.TempDir())
	plane := xdstest.Start(t, xdstest.Options{TLS: mutual(files, tls.VersionTLS13)})
	old := xdstest.Start(t, xdstest.Options{TLS: mutual(files, tls.VersionTLS12)})
	plane.Set(t, "1", named(t, "a"))
	_, port, err := net.SplitHostPort(plane.Address)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		what   string
		server string
		change func(*TLS)
		want   string // in the error; empty: it works
	}{
		{"all is right", plane.Address, func(*TLS) {}, ""},
		{"by name", "localhost:" + port, func(*TLS) {}, ""},
		{"another name is asked for", plane.Address, func(o *TLS) { o.ServerName = "localhost" }, ""},
		{"a name that the certificate does not have", plane.Address, func(o *TLS) { o.ServerName = "other" }, "not other"},
		{"the server's authority is unknown", plane.Address, func(o *TLS) { o.CA = others.CA }, "unknown authority"},
		{"the system knows no such authority", plane.Address, func(o *TLS) { o.CA = "" }, "certificate"},
		{"no certificate of the client", plane.Address, func(o *TLS) { o.Cert, o.Key = "", "" }, "certificate required"},
		{"one of another authority", plane.Address, func(o *TLS) { o.Cert, o.Key = others.ClientCert, others.ClientKey }, "tls: "},
		{"a file that is not there", plane.Address, func(o *TLS) { o.CA = "no.pem" }, "no.pem: no such file"},
		{"a file that holds none", plane.Address, func(o *TLS) { o.CA = files.ServerKey }, "holds no certificate"},
		{"a key of another certificate", plane.Address, func(o *TLS) { o.Key = files.ServerKey }, "private key does not match"},
		{"a server of TLS 1.2", old.Address, func(*TLS) {}, "protocol version"},
	} {
		t.Run(row.what, func(t *testing.T) {
			r := receive(t, row.server, secured(files), func(o *Options) { row.change(o.TLS) })
			if row.want == "" {
				eventually(t, "a state is taken", func() bool { return r.history() == "[a]" })
				return
			}
			eventually(t, "an error tells of "+row.want, func() bool { return r.tells(row.want) })
		})
	}
}

// New files are used for the next connection, on both sides.
func TestCertificatesAreReplaced(t *testing.T) {
	dir := t.TempDir()
	files := redistest.NewCertificates(t, dir)
	plane := xdstest.Start(t, xdstest.Options{TLS: mutual(files, 0)})
	plane.Set(t, "1", named(t, "a"))
	r := receive(t, plane.Address, secured(files))
	eventually(t, "the first state is taken", func() bool { return r.history() == "[a]" })

	redistest.NewCertificates(t, dir) // of another authority, under the same names
	plane.Stop()
	again := xdstest.Start(t, xdstest.Options{Address: plane.Address, TLS: mutual(files, 0)})
	again.Set(t, "1", named(t, "b"))
	eventually(t, "the second state is taken", func() bool { return r.history() == "[a] [b]" })
}

func TestLargeResponses(t *testing.T) {
	plane := xdstest.Start(t, xdstest.Options{})
	large := named(t, "a")
	for i := range 5 << 10 {
		large.Descriptors = append(large.Descriptors, &ratelimitv3.RateLimitDescriptor{Key: fmt.Sprint("k", i), Value: strings.Repeat("v", 1<<10)})
	}
	plane.Set(t, "1", large)
	r := receive(t, plane.Address)
	eventually(t, "five MiB are taken", func() bool { return r.history() == "[a]" })
	small := receive(t, plane.Address, func(o *Options) { o.MaxMessage = 1 << 20 })
	eventually(t, "the bound is told", func() bool {
		return small.tells("ResourceExhausted: grpc: received message larger than max")
	})
}

// Whatever the client is waiting for, it stops when it is told to.
func TestStopsAtAnyMoment(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	quiet := xdstest.Start(t, xdstest.Options{})
	refused := xdstest.Start(t, xdstest.Options{})
	refused.Set(t, "1", faulty(t))
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	for _, row := range []struct {
		waits, server string
		until         func(*receiver) bool
	}{
		{"for nothing yet", silent.Addr().String(), func(*receiver) bool { return true }},
		{"for a handshake", silent.Addr().String(), func(r *receiver) bool { return r.Err() != nil }},
		{"for a first state", quiet.Address, func(*receiver) bool { return len(quiet.Requests()) > 0 }},
		{"before it refuses once more", refused.Address, func(*receiver) bool { return len(refused.Requests()) > 3 }},
		{"before it tries again", closed.Addr().String(), func(r *receiver) bool { return strings.Contains(r.logged(), "next_try") }},
	} {
		t.Run(row.waits, func(t *testing.T) {
			r := receive(t, row.server, func(o *Options) { o.Backoff = Backoff{Initial: time.Hour, Max: time.Hour} })
			eventually(t, "it waits "+row.waits, func() bool { return row.until(r) })
			begin := time.Now()
			r.stop()
			if took := time.Since(begin); took > 2*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// A server of gRPC that knows nothing of discovery is told as what it is.
func TestNoControlPlane(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	r := receive(t, listener.Addr().String())
	eventually(t, "the error tells", func() bool {
		return r.tells("control plane " + listener.Addr().String() + ": Unimplemented: unknown service envoy.service.discovery.v3.AggregatedDiscoveryService")
	})
}

func TestMetricsAreRegisteredOnce(t *testing.T) {
	registry := prometheus.NewRegistry()
	if _, err := New(Options{Registerer: registry}); err != nil {
		t.Error(err)
	}
	if _, err := New(Options{Registerer: registry}); err == nil {
		t.Error("registered twice")
	}
}

func TestBackoff(t *testing.T) {
	for _, row := range []struct {
		backoff Backoff
		tries   int
		chance  float64
		want    time.Duration
	}{
		{Backoff{}, 0, 0, time.Second},
		{Backoff{}, 1, 0, 2 * time.Second},
		{Backoff{}, 4, 0, 16 * time.Second},
		{Backoff{}, 5, 0, 30 * time.Second},
		{Backoff{}, 1 << 30, 0, 30 * time.Second},
		{Backoff{}, 0, 0.5, time.Second - time.Second/6},
		{Backoff{}, 9, 1, 20 * time.Second},
		{Backoff{Initial: 10 * time.Second, Max: time.Minute}, 0, 0, 10 * time.Second},
		{Backoff{Initial: 10 * time.Second, Max: time.Minute}, 2, 0, 40 * time.Second},
		{Backoff{Initial: 10 * time.Second, Max: time.Minute}, 3, 0, time.Minute},
		{Backoff{Initial: time.Minute, Max: time.Second}, 0, 0, time.Second},
	} {
		if got := row.backoff.wait(row.tries, row.chance); got != row.want {
			t.Errorf("%+v, %d tries, chance %v: %v, want %v", row.backoff, row.tries, row.chance, got, row.want)
		}
	}
}
