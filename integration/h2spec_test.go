package integration

import (
	"context"
	"crypto/tls"
	"encoding/xml"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"

	"github.com/ratelimitd/ratelimitd/pkg/transport"
)

// h2specPath is built by make; its version stands in tools/fetch-h2spec.
const h2specPath = "../.tools/h2spec-2.2.1"

// rateLimitPath is the path of the one method that the transport serves itself.
const rateLimitPath = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"

// The transport, by itself and in ratelimitd, passes h2spec, which knows what HTTP/2 asks of a server: all of its tests, the strict ones included. There are
// no exceptions. Its requests are none of gRPC, so what it hears are refusals, which are made and sent as replies are.
func TestH2spec(t *testing.T) {
	if _, err := os.Stat(h2specPath); err != nil {
		t.Fatal("h2spec is not there; run `make tools` or `tools/fetch-h2spec .tools/h2spec-2.2.1` first: ", err)
	}
	tests := []struct {
		name    string
		args    []string
		address func(t *testing.T) string
	}{
		{"the method", []string{"--path", rateLimitPath}, func(t *testing.T) string { return serveTransport(t, false) }},
		{"another path", []string{"--path", "/"}, func(t *testing.T) string { return serveTransport(t, false) }},
		{"TLS", []string{"--path", rateLimitPath, "--tls", "--insecure"}, func(t *testing.T) string { return serveTransport(t, true) }},
		{"ratelimitd", []string{"--path", rateLimitPath}, func(t *testing.T) string { return serve(t, policyDir(t, "domain: edge\n")).grpc }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			host, port, err := net.SplitHostPort(test.address(t))
			if err != nil {
				t.Fatal(err)
			}
			report := filepath.Join(t.TempDir(), "report.xml")
			args := append([]string{"--strict", "--timeout", "5", "--host", host, "--port", port, "--junit-report", report}, test.args...)
			out, err := exec.Command(h2specPath, args...).CombinedOutput()
			if err != nil {
				t.Errorf("h2spec: %v\n%s", err, out)
			}
			checkReport(t, report)
		})
	}
}

// checkReport fails the test for each test of h2spec that failed or was skipped, and if there are not as many as there were.
func checkReport(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var report struct {
		Suites []struct {
			Name  string `xml:"name,attr"`
			Cases []struct {
				Name    string    `xml:"classname,attr"`
				Skipped *struct{} `xml:"skipped"`
				Failure *struct{} `xml:"failure"`
				Error   *struct{} `xml:"error"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(text, &report); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, suite := range report.Suites {
		for _, c := range suite.Cases {
			n++
			if c.Skipped != nil || c.Failure != nil || c.Error != nil {
				t.Errorf("%s: %s: it failed or was skipped", suite.Name, c.Name)
			}
		}
	}
	const all = 146 // of h2spec 2.2.1
	if n != all {
		t.Errorf("h2spec ran %d tests, want %d", n, all)
	}
}

// serveTransport serves the transport, with a handler that allows everything, and returns its address.
func serveTransport(t *testing.T, secure bool) string {
	t.Helper()
	s, err := transport.New(transport.Options{Method: rateLimitPath, Handler: allowAll{}, Other: grpc.NewServer()})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if secure {
		example := httptest.NewTLSServer(http.NotFoundHandler()) // has a certificate
		defer example.Close()
		listener = tls.NewListener(listener, &tls.Config{Certificates: example.TLS.Certificates, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12})
	}
	go func() { _ = s.Serve(listener) }() // until Stop
	t.Cleanup(s.Stop)
	return address
}

// allowAll answers every call with overall code OK.
type allowAll struct{}

func (allowAll) Handle(_ context.Context, batch []*transport.Call) {
	for _, call := range batch {
		call.Reply = append(call.Reply, 0x08, 1)
	}
}
