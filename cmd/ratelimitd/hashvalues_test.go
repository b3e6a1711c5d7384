package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/encoding/prototext"

	"github.com/ratelimitd/ratelimitd/internal/otlptest"
	"github.com/ratelimitd/ratelimitd/internal/redistest"
	"github.com/ratelimitd/ratelimitd/pkg/settings"
)

const secretPolicy = `domain: edge
descriptors:
  - key: token
    rate_limits:
      - {requests_per_unit: 2, window: 876000h}
      - {requests_per_unit: 100, window: 876000h, algorithm: sliding_window_log}
    descriptors:
      - {key: path, rate_limit: {requests_per_unit: 100, window: 876000h, algorithm: token_bucket}}
  - {key: token, value: "sk_*_shadow", shadow_mode: true, rate_limit: {requests_per_unit: 0, unit: hour}}
  - {key: token, value: "sk_*_shared", share_threshold: true, rate_limit: {requests_per_unit: 100, unit: hour}}
  - {key: replaced, rate_limit: {requests_per_unit: 100, unit: hour, name: replaced}}
  - {key: replaces, rate_limit: {requests_per_unit: 100, unit: hour, replaces: [{name: replaced}]}}
  - {key: unlimited, rate_limit: {unlimited: true}}
  - {key: open}
`

// secret is in every value that clients send.
const secret = "sk_live_4eC39HqLyjWDarjtT1zdp7dc"

// secretRequests meet every kind of rule, and none.
func secretRequests() []*rlsv3.RateLimitRequest {
	brought := request("edge", "token", secret+"_brought")
	brought.Descriptors[0].Limit = &ratelimitv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 1, Unit: typev3.RateLimitUnit_HOUR}
	together := request("edge", "replaced", secret)
	together.Descriptors = append(together.Descriptors, request("edge", "replaces", secret).Descriptors...)
	return []*rlsv3.RateLimitRequest{
		request("edge", "token", secret), request("edge", "token", secret), request("edge", "token", secret), // and denied
		request("edge", "token", secret, "path", "/"+secret), request("edge", "token", secret+strings.Repeat("x", 10_000)),
		request("edge", "token", secret+"_shadow"), request("edge", "token", secret+"_shared"),
		brought, brought, together, request("edge", "unlimited", secret), request("edge", "open", secret),
		request("edge", "unmatched", secret), request("elsewhere", "token", secret),
	}
}

// TestHashedValuesAreNowhere sends secrets to a program that hashes values, and
// looks for them wherever it leaves anything. One that does not hash them shows
// that the test would find them.
func TestHashedValuesAreNowhere(t *testing.T) {
	const key = "0123456789abcdef"
	dir := t.TempDir()
	write(t, dir+"/edge.yaml", secretPolicy)
	for _, hashed := range []bool{true, false} {
		t.Run(fmt.Sprint("hashed ", hashed), func(t *testing.T) {
			redis := redistest.Start(t, redistest.Options{})
			sent := monitor(t, redis)
			collector := otlptest.Start(t)
			p := start(t, withPolicies(dir), withRedis(redis.URL(), settings.ReadyWithStore), withTracing(t, collector, 1), func(s *settings.Settings) {
				s.HashValues, s.HashValuesKey = hashed, key
				s.LogLevel, s.DynamicMetadata, s.Body, s.RateLimitLegacyHeaders = "debug", true, true, true
			})
			answers := askSecrets(t, p)
			redis.Kill() // what is logged then
			askSecrets(t, p)
			collector.Wait(t, 3*len(secretRequests())) // each twice, and some ask Redis
			places := map[string]string{"Redis": sent(), "the answers": answers, "the log": p.log.String(), "spans": collector.Text()}
			for _, path := range []string{"/rules", "/rules.json", "/status", "/settings", "/metrics", "/debug/pprof/goroutine?debug=2"} {
				_, places[path] = page(t, "GET", p.Admin.String()+path, "")
			}
			for place, text := range places {
				shown := !hashed && (place == "Redis" || place == "the answers")
				if has := strings.Contains(text, secret[8:]); has != shown || len(text) < 100 {
					t.Errorf("in %s: %v, want %v; it holds\n%.2000s", place, has, shown, text)
				}
				if strings.Contains(text, key) {
					t.Errorf("the key is in %s", place)
				}
			}
		})
	}
}

// askSecrets returns all that is answered to the requests with secrets.
func askSecrets(t *testing.T, p *program) string {
	t.Helper()
	var b strings.Builder
	client := p.client(t)
	for _, r := range secretRequests() {
		reply, err := client.ShouldRateLimit(t.Context(), r)
		fmt.Fprintf(&b, "%s %v\n", prototext.Format(reply), err)
	}
	_, text := page(t, "POST", p.HTTP.String()+"/json", `{"domain":"edge","descriptors":[{"entries":[{"key":"token","value":"`+secret+`"}]}]}`)
	return b.String() + text
}

// monitor keeps all that Redis is sent from now on.
func monitor(t *testing.T, redis *redistest.Server) (sent func() string) {
	t.Helper()
	conn, err := net.Dial("tcp", redis.ClientOptions().Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := io.WriteString(conn, "MONITOR\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, make([]byte, len("+OK\r\n"))); err != nil {
		t.Fatal(err)
	}
	var seen bytes.Buffer
	ended := make(chan error, 1)
	go func() {
		_, err := io.Copy(&seen, conn)
		ended <- err
	}()
	return func() string {
		<-ended // Redis is gone
		return seen.String()
	}
}
