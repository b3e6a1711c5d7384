package compat

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ratelimitd/ratelimitd/internal/programtest"
	"github.com/ratelimitd/ratelimitd/internal/redistest"
	"github.com/ratelimitd/ratelimitd/internal/xdstest"
)

// What the control plane is told, whom it must be, and how much it may send.
func TestControlPlaneVariables(t *testing.T) {
	files := redistest.NewCertificates(t, t.TempDir())
	pair, err := tls.LoadX509KeyPair(files.ServerCert, files.ServerKey)
	if err != nil {
		t.Fatal(err)
	}
	plane := xdstest.Start(t, xdstest.Options{Node: "some-node", TLS: &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13}})
	plane.Set(t, "1", resource("d", 2000))
	env := append(redis(t), "CONFIG_TYPE=GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_SERVER_URL="+plane.Address, "CONFIG_GRPC_XDS_NODE_ID=some-node",
		"CONFIG_GRPC_XDS_SERVER_USE_TLS=true", "CONFIG_GRPC_XDS_SERVER_TLS_CACERT="+files.CA, "XDS_CLIENT_BACKOFF_INITIAL_INTERVAL=50ms", "XDS_CLIENT_BACKOFF_MAX_INTERVAL=100ms")
	t.Run("told", func(t *testing.T) {
		start(t, append(env, "CONFIG_GRPC_XDS_NODE_METADATA=zone=z1,nothing,team=a=b", "CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS=x-token:hunter2,x-team:a", "CONFIG_GRPC_XDS_SERVER_TLS_SAN=localhost")...)
		metadata := plane.Requests()[0].GetNode().GetMetadata().AsMap()
		if len(metadata) != 2 || metadata["zone"] != "z1" || metadata["team"] != "a=b" {
			t.Errorf("metadata %v", metadata)
		}
		if headers := plane.Headers()[0]; !slices.Equal(headers.Get("x-token"), []string{"hunter2"}) || !slices.Equal(headers.Get("x-team"), []string{"a"}) {
			t.Errorf("headers %v", headers)
		}
	})
	for variable, want := range map[string]string{
		"CONFIG_GRPC_XDS_SERVER_TLS_SAN=elsewhere.example.com": "not elsewhere.example.com",
		"XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES=1000":                "larger than max",
	} {
		t.Run(variable, func(t *testing.T) {
			s := launch(t, "ratelimit", nil, append(env, variable))
			waitFor(t, want, func() bool { return strings.Contains(s.Log.String(), want) })
			if got := s.health(); got != http.StatusServiceUnavailable {
				t.Errorf("health %d", got)
			}
		})
	}
}

// What policies may be, what of a limit is near, and how headers are called.
func TestPolicyAndAnswerVariables(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "rl/config/a.yaml"), "domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 10}}]\n")
	write(t, filepath.Join(dir, "rl/config/b.yaml"), "domain: d\ndescriptors: [{key: l, rate_limit: {unit: day, requests_per_unit: 1}}]\n")
	stats := startStatsd(t)
	env := append(redis(t), "RUNTIME_ROOT="+dir, "RUNTIME_SUBDIRECTORY=rl", "LIMIT_RESPONSE_HEADERS_ENABLED=T", "LIMIT_REMAINING_HEADER=X-Left", "NEAR_LIMIT_RATIO=0.5")
	s := start(t, append(append(env, "MERGE_DOMAIN_CONFIG=true"), stats.env()...)...)
	for range 7 {
		response, err := s.askFor(t, "d")
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, header := range response.GetResponseHeadersToAdd() {
			names = append(names, header.GetKey())
		}
		if !slices.Equal(names, []string{"RateLimit-Limit", "X-Left", "RateLimit-Reset"}) {
			t.Fatalf("headers %v", names)
		}
	}
	if code, all := s.statuses(t, "d", "l", "v"); code != rlsv3.RateLimitResponse_OK || all[0].GetCurrentLimit().GetRequestsPerUnit() != 1 {
		t.Errorf("the second file: %v, %v", code, all)
	}
	waitFor(t, "two hits past half of the limit", func() bool { return stats.total("ratelimit.service.rate_limit.d.k.near_limit") == 2 })

	s = start(t, env...)
	if _, err := s.askFor(t, "d"); status.Code(err) != codes.Unavailable || !strings.Contains(s.Log.String(), "duplicate domain") {
		t.Errorf("two files of one domain: %v", err)
	}
}

// Metrics go where it is said, as it is said, or nowhere.
func TestMetricVariables(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "rl/config/a.yaml"), policy("d", "1"))
	env := append(redis(t), "RUNTIME_ROOT="+dir, "RUNTIME_SUBDIRECTORY=rl")
	t.Run("dogstatsd", func(t *testing.T) {
		lines := startLines(t)
		s := start(t, append(env, "DISABLE_STATS=false", "USE_STATSD=false", "USE_DOG_STATSD=true", "EXTRA_TAGS=zone:z1,app:rl", "STATS_FLUSH_INTERVAL=100ms", "STATSD_HOST=127.0.0.1", "STATSD_PORT="+lines.port,
			"USE_DOG_STATSD_MOGRIFIERS=RULE", `DOG_STATSD_MOGRIFIER_RULE_PATTERN=^ratelimit\.service\.rate_limit\.(.*)\.(.*)\.(.*)$`,
			"DOG_STATSD_MOGRIFIER_RULE_NAME=rl.$3", "DOG_STATSD_MOGRIFIER_RULE_TAGS=domain:$1,rule:$2")...)
		if _, err := s.askFor(t, "d"); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"rl.total_hits:1|c|#", "ratelimit_server.ShouldRateLimit.total_requests:1|c|#"} {
			line := lines.await(t, want)
			for _, tag := range []string{"zone:z1", "app:rl"} {
				if !strings.Contains(line, tag) {
					t.Errorf("%s has no %s", line, tag)
				}
			}
			if strings.HasPrefix(want, "rl.") && (!strings.Contains(line, "domain:d") || !strings.Contains(line, "rule:k")) {
				t.Errorf("%s has not all tags of the mogrifier", line)
			}
		}
	})
	t.Run("Prometheus", func(t *testing.T) {
		page := programtest.FreeAddress(t)
		s := start(t, append(env, "DISABLE_STATS=false", "USE_STATSD=false", "USE_PROMETHEUS=true", "PROMETHEUS_ADDR="+page, "PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS=true")...)
		begun := time.Now()
		for range 100 {
			if _, err := s.askFor(t, "d"); err != nil {
				t.Fatal(err)
			}
		}
		took := time.Since(begun)
		const sum = "\nratelimit_service_response_time_seconds_sum{grpc_method=\"ShouldRateLimit\"} "
		_, after, _ := strings.Cut(get(t, "http://"+page+"/metrics"), sum)
		number, _, _ := strings.Cut(after, "\n")
		if shown, err := strconv.ParseFloat(number, 64); err != nil || shown <= took.Seconds() || shown > took.Seconds()*1000 {
			t.Errorf("100 calls that took %v have a sum of %s milliseconds", took, number)
		}
	})
	t.Run("DISABLE_STATS", func(t *testing.T) { // wins over all
		lines, page := startLines(t), programtest.FreeAddress(t)
		s := start(t, append(env, "DISABLE_STATS=true", "USE_STATSD=true", "USE_DOG_STATSD=true", "USE_PROMETHEUS=true", "PROMETHEUS_ADDR="+page, "STATSD_PROTOCOL=udp", "STATSD_HOST=127.0.0.1", "STATSD_PORT="+lines.port, "STATS_FLUSH_INTERVAL=10ms")...)
		if _, err := s.askFor(t, "d"); err != nil {
			t.Fatal(err)
		}
		if conn, err := net.Dial("tcp", page); err == nil {
			_ = conn.Close()
			t.Error("there is a page for Prometheus")
		}
		time.Sleep(200 * time.Millisecond)
		if got := lines.all(); len(got) > 0 {
			t.Errorf("sent: %s", got)
		}
	})
}

// How much is logged, and numbers as there, in any base.
func TestLogAndNumberVariables(t *testing.T) {
	s := start(t, append(redis(t), "LOG_LEVEL=Error", "REDIS_PIPELINE_LIMIT=8", "REDIS_POOL_SIZE=0x2")...)
	if text := s.Log.String(); text != "" {
		t.Errorf("with LOG_LEVEL=Error it is logged:\n%s", text)
	}
	s = start(t, append(redis(t), "LOG_LEVEL=trace", "LOG_FORMAT=logfmt")...)
	if text := s.Log.String(); !strings.Contains(text, "level=INFO msg=listening") {
		t.Errorf("with LOG_LEVEL=trace it is logged:\n%s", text)
	}
	for _, variable := range []string{"LOG_LEVEL=loud", "CONFIG_TYPE=file", "REDIS_TYPE=ring", "REDIS_POOL_ON_EMPTY_BEHAVIOR=CREATE", "STATSD_PROTOCOL=sctp", "NEAR_LIMIT_RATIO=2", "REDIS_TIMEOUT=5", "SHADOW_MODE=on"} {
		name, _, _ := strings.Cut(variable, "=")
		cmd := named("ratelimit")
		cmd.Env = []string{variable}
		if out, err := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != 1 || !strings.HasPrefix(string(out), name+": ") {
			t.Errorf("%s: %v\n%s", variable, err, out)
		}
	}
}

// get returns a page.
func get(t *testing.T, url string) string {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// lines are what is sent to a port, line by line.
type lines struct {
	port string
	programtest.Journal
}

// startLines listens on UDP until the test ends.
func startLines(t *testing.T) *lines {
	t.Helper()
	l := &lines{}
	l.port = strconv.Itoa(listenUDP(t, func(packet string) { _, _ = l.Write([]byte(packet + "\n")) }))
	return l
}

func (l *lines) all() []string { return strings.Fields(l.String()) }

// await waits for a line that begins so.
func (l *lines) await(t *testing.T, begin string) (line string) {
	t.Helper()
	waitFor(t, begin, func() bool {
		i := slices.IndexFunc(l.all(), func(line string) bool { return strings.HasPrefix(line, begin) })
		if i >= 0 {
			line = l.all()[i]
		}
		return i >= 0
	})
	return line
}
