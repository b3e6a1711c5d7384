package integration

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ratelimitd/ratelimitd/internal/programtest"
)

// envoy is a running Envoy with the configuration of deploy/envoy.
type envoy struct {
	*programtest.Process
	address string // of the listener that limits
	admin   string
}

// envoyOptions says what differs from deploy/envoy/envoy.yaml.
type envoyOptions struct {
	ratelimitd []string // gRPC addresses, at least one; unix:path is a socket
	routes     string   // more routes, as a YAML list; they come before those of the file
	workers    int      // of Envoy; 0: 2

	edit func(text string) string // changes the text, after all else; nil: not
}

// startEnvoy starts an Envoy and waits until it takes requests and every ratelimitd has passed a health check.
func startEnvoy(t *testing.T, o envoyOptions) *envoy {
	t.Helper()
	e := &envoy{address: programtest.FreeAddress(t), admin: programtest.FreeAddress(t)}
	e.launch(t, envoyConfig(t, e, o), cmp.Or(o.workers, 2))
	e.waitHealthy(t, len(o.ratelimitd))
	return e
}

// launch starts the Envoy with a configuration, and waits until it takes requests.
func (e *envoy) launch(t *testing.T, config string, workers int) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "envoy.yaml")
	writePolicy(t, file, config)
	e.Process = startProcess(t, nil, envoyPath, "-c", file, "--concurrency", strconv.Itoa(workers), "--disable-hot-restart", "-l", "warning")
	waitFor(t, 20*time.Second, "Envoy to be ready", func() bool {
		if !e.Running() {
			t.Fatal("Envoy ended")
		}
		resp, err := http.Get("http://" + e.admin + "/ready")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

// envoyConfig returns the text of deploy/envoy/envoy.yaml with the addresses of this test. Whatever is replaced must be
// there: a change to the file that this does not follow fails.
func envoyConfig(t *testing.T, e *envoy, o envoyOptions) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(deployedDir, "envoy.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	replace := func(old, by string) {
		t.Helper()
		if !strings.Contains(text, old) {
			t.Fatalf("envoy.yaml does not contain %q", old)
		}
		text = strings.ReplaceAll(text, old, by)
	}
	port := func(address string) string {
		_, port, err := net.SplitHostPort(address)
		if err != nil {
			t.Fatal(err)
		}
		return "port_value: " + port + "}"
	}
	replace("port_value: 9901}", port(e.admin))
	replace("port_value: 10000}", port(e.address))
	replace("port_value: 10001}", port(programtest.FreeAddress(t)))

	endpoint := "              - endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: 8081}}}\n"
	var endpoints strings.Builder
	for _, address := range o.ratelimitd {
		if path, isUnix := strings.CutPrefix(address, "unix:"); isUnix {
			endpoints.WriteString(strings.Replace(endpoint, "socket_address: {address: 127.0.0.1, port_value: 8081}", "pipe: {path: "+path+"}", 1))
			continue
		}
		endpoints.WriteString(strings.Replace(endpoint, "port_value: 8081}", port(address), 1))
	}
	replace(endpoint, endpoints.String())

	// These tests are about decisions, on a machine that may be busy with other tests: a late answer is no failure here.
	replace("timeout: 0.1s\n", "timeout: 10s\n")
	replace("max_interval: 0.1s", "max_interval: 10s")

	const first = "                        # One limit for each user.\n"
	indent := strings.Repeat(" ", strings.IndexByte(first, '#'))
	var routes strings.Builder
	for line := range strings.Lines(o.routes) {
		routes.WriteString(indent + line)
	}
	replace(first, routes.String()+first)
	if o.edit != nil {
		text = o.edit(text)
	}
	return text
}

// stat returns one of Envoy's counters or gauges; 0 for one that does not exist, since Envoy makes them when first used.
func (e *envoy) stat(t *testing.T, name string) int {
	t.Helper()
	return e.stats(t, "^"+name+"$")[name]
}

// stats returns those of Envoy's counters and gauges whose names match a pattern.
func (e *envoy) stats(t *testing.T, pattern string) map[string]int {
	t.Helper()
	resp, err := http.Get("http://" + e.admin + "/stats?format=json&filter=" + url.QueryEscape(pattern))
	if err != nil {
		t.Fatalf("statistics of Envoy: %v", err)
	}
	defer resp.Body.Close()
	var all struct {
		Stats []struct {
			Name  string
			Value int
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&all); err != nil {
		t.Fatalf("statistics of Envoy: %v", err)
	}
	values := map[string]int{}
	for _, stat := range all.Stats {
		values[stat.Name] = stat.Value
	}
	return values
}

// waitHealthy waits until Envoy counts n instances of ratelimitd as healthy.
func (e *envoy) waitHealthy(t *testing.T, n int) {
	t.Helper()
	waitFor(t, 20*time.Second, fmt.Sprintf("Envoy to find %d healthy ratelimitd", n), func() bool {
		return e.stat(t, "cluster.ratelimitd.membership_healthy") == n
	})
}

// wantNoErrors fails the test if a call to ratelimitd failed, which Envoy would have answered by letting the request through.
func (e *envoy) wantNoErrors(t *testing.T) {
	t.Helper()
	outcomes := e.stats(t, `^cluster\.backend\.ratelimit\.`)
	if outcomes["cluster.backend.ratelimit.error"] == 0 && outcomes["cluster.backend.ratelimit.failure_mode_allowed"] == 0 {
		return
	}
	t.Errorf("calls to ratelimitd failed: %v", outcomes)
	why := e.stats(t, `^cluster\.ratelimitd\.(upstream|health_check|membership)`)
	maps.DeleteFunc(why, func(_ string, n int) bool { return n == 0 })
	t.Logf("what Envoy counted of them: %v", why)
}

// answer is what a client of Envoy gets.
type answer struct {
	status int
	header http.Header
	body   string
}

// client asks an Envoy over HTTP. Safe for concurrent use.
type client struct {
	http http.Client
	base string
}

// client returns a client of this Envoy whose connections come from the given loopback address, 127.0.0.1 when empty.
func (e *envoy) client(t *testing.T, from string) *client {
	t.Helper()
	dialer := &net.Dialer{Timeout: 5 * time.Second}
	if from != "" {
		dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(from)}
	}
	transport := &http.Transport{DialContext: dialer.DialContext, MaxIdleConnsPerHost: 256}
	t.Cleanup(transport.CloseIdleConnections)
	return &client{http: http.Client{Transport: transport, Timeout: 20 * time.Second}, base: "http://" + e.address}
}

// get asks for a path. Headers are "name: value"; a value may hold any byte that HTTP allows.
func (c *client) get(path string, headers ...string) (answer, error) {
	return c.send(http.MethodGet, path, headers...)
}

// send is get with any method.
func (c *client) send(method, path string, headers ...string) (answer, error) {
	req, err := http.NewRequest(method, c.base+path, http.NoBody)
	if err != nil {
		return answer{}, err
	}
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		req.Header.Add(name, value)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return answer{status: resp.StatusCode, header: resp.Header, body: string(body)}, err
}

// mustGet is get for a test that cannot go on without an answer.
func (c *client) mustGet(t *testing.T, path string, headers ...string) answer {
	t.Helper()
	a, err := c.get(path, headers...)
	if err != nil {
		t.Fatal(err)
	}
	return a
}
