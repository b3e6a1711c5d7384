package main

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/ratelimitd/ratelimitd/internal/programtest"
	"github.com/ratelimitd/ratelimitd/pkg/settings"
)

// program is the whole program, running in this process.
type program struct {
	Addresses
	log  *programtest.Journal
	stop func() error // tells it to stop and waits until it has
	end  func()       // tells it to stop
	done chan error   // gets Run's error
}

// start runs the program on free ports, with the settings changed by each
// function, and stops it when the test ends.
func start(t *testing.T, change ...func(*settings.Settings)) *program {
	t.Helper()
	s := settings.Default()
	s.GRPCAddress, s.HTTPAddress, s.AdminAddress = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	s.DrainDelay, s.ShutdownTimeout = 0, 2*time.Second
	s.StoreTimeout = 5 * time.Second // the machine may be busy
	for _, f := range change {
		f(s)
	}
	p := &program{log: &programtest.Journal{}, done: make(chan error, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	listening := make(chan Addresses, 1)
	m := &Main{Settings: s, LogTo: p.log, OnListen: func(a Addresses) { listening <- a }}
	go func() { p.done <- m.Run(ctx) }()
	select {
	case p.Addresses = <-listening:
	case err := <-p.done:
		cancel()
		t.Fatalf("it did not start: %v", err)
	}
	var once sync.Once
	p.end = cancel
	p.stop = func() (err error) {
		once.Do(func() {
			cancel()
			err = <-p.done
		})
		return err
	}
	t.Cleanup(func() {
		if err := p.stop(); err != nil {
			t.Errorf("it stopped with %v", err)
		}
		if t.Failed() {
			t.Logf("log:\n%s", p.log)
		}
	})
	return p
}

// withPolicies starts the program with a directory that holds one file.
func withPolicies(dir string) func(*settings.Settings) {
	return func(s *settings.Settings) { s.Policies = dir }
}

// client returns a gRPC client of the program.
func (p *program) client(t *testing.T) rlsv3.RateLimitServiceClient {
	t.Helper()
	return rlsv3.NewRateLimitServiceClient(p.dial(t))
}

func (p *program) dial(t *testing.T) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(shown(p.GRPC), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// request asks one descriptor of a domain; pairs are its keys and values.
func request(domain string, pairs ...string) *rlsv3.RateLimitRequest {
	d := &ratelimitv3.RateLimitDescriptor{}
	for i := 0; i < len(pairs); i += 2 {
		d.Entries = append(d.Entries, &ratelimitv3.RateLimitDescriptor_Entry{Key: pairs[i], Value: pairs[i+1]})
	}
	return &rlsv3.RateLimitRequest{Domain: domain, Descriptors: []*ratelimitv3.RateLimitDescriptor{d}}
}

// page returns status and body of a page.
func page(t *testing.T, method, url, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequest(method, "http://"+url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// eventually waits until a condition holds. It is patient, for the machine may
// be busy; that changes of the policy take 2 seconds at most is for the tests
// of package reload.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still not so: %s", what)
		}
	}
}

// write puts a file in place by renaming.
func write(t *testing.T, path, text string) {
	t.Helper()
	staged := filepath.Join(t.TempDir(), "staged")
	if err := os.WriteFile(staged, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(staged, path); err != nil {
		t.Fatal(err)
	}
}
