package web

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/prometheus/client_golang/prometheus"
)

type httpError struct {
	status int
	text   string
}

func (e httpError) Error() string   { return e.text }
func (e httpError) HTTPStatus() int { return e.status }

// ask answers by the name of the domain.
func ask(_ context.Context, r *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error) {
	switch r.Domain {
	case "ok":
		return &rlsv3.RateLimitResponse{
			OverallCode:          rlsv3.RateLimitResponse_OK,
			ResponseHeadersToAdd: []*corev3.HeaderValue{{Key: "RateLimit", Value: "é"}},
		}, nil
	case "over":
		return &rlsv3.RateLimitResponse{OverallCode: rlsv3.RateLimitResponse_OVER_LIMIT, RawBody: []byte{0xff}}, nil
	case "hits":
		return &rlsv3.RateLimitResponse{OverallCode: rlsv3.RateLimitResponse_OK, Statuses: []*rlsv3.RateLimitResponse_DescriptorStatus{{LimitRemaining: r.HitsAddend}}}, nil
	case "odd":
		return &rlsv3.RateLimitResponse{}, nil
	case "bytes":
		return &rlsv3.RateLimitResponse{OverallCode: 1, ResponseHeadersToAdd: []*corev3.HeaderValue{{Key: "\xff"}}}, nil
	case "":
		return nil, httpError{400, "rate limit domain must not be empty"}
	case "store":
		return nil, httpError{503, "the store did not decide"}
	}
	return nil, errors.New("boom")
}

func TestJSON(t *testing.T) {
	handler := Public(Options{Ask: ask, MaxBody: 200, Metrics: prometheus.NewRegistry()})
	for _, test := range []struct {
		name, method, body string
		code               int
		want               string
	}{
		{"allowed", "POST", `{"domain":"ok"}`, 200, `{"overallCode":"OK","responseHeadersToAdd":[{"key":"RateLimit","value":"é"}]}`},
		{"denied", "POST", `{"domain":"over"}`, 429, `{"overallCode":"OVER_LIMIT","rawBody":"/w=="}`},
		{"names of the protocol", "POST", `{"domain":"hits","hits_addend":4294967295}`, 200, `{"overallCode":"OK","statuses":[{"limitRemaining":4294967295}]}`},
		{"names of JSON", "POST", `{"domain":"hits","hitsAddend":"3"}`, 200, `{"overallCode":"OK","statuses":[{"limitRemaining":3}]}`},
		{"no code", "POST", `{"domain":"odd"}`, 500, `{}`},
		{"what JSON cannot say", "POST", `{"domain":"bytes"}`, 500, "the answer cannot be written as JSON: field envoy.config.core.v3.HeaderValue.key contains invalid UTF-8"},
		{"a request that is wrong", "POST", `{}`, 400, "rate limit domain must not be empty"},
		{"no store", "POST", `{"domain":"store"}`, 503, "the store did not decide"},
		{"another error", "POST", `{"domain":"x"}`, 500, "boom"},
		{"an unknown field", "POST", `{"domain":"ok","descriptor":[]}`, 400, `the body is no RateLimitRequest: (line 1:16): unknown field "descriptor"`},
		{"a wrong type", "POST", `{"domain":5}`, 400, `the body is no RateLimitRequest: (line 1:11): invalid value for string field domain: 5`},
		{"no JSON", "POST", `domain=ok`, 400, `the body is no RateLimitRequest: syntax error (line 1:1): invalid value domain`},
		{"nothing", "POST", ``, 400, `the body is no RateLimitRequest: syntax error (line 1:1): unexpected token `},
		{"bytes", "POST", "{\"domain\":\"\xff\"}", 400, `the body is no RateLimitRequest: syntax error (line 1:11): invalid UTF-8 in string`},
		{"half a character", "POST", `{"domain":"\ud800"}`, 400, `the body is no RateLimitRequest: unexpected EOF`},
		{"too large", "POST", `{"domain":"` + strings.Repeat("x", 200) + `"}`, 413, "the body has more than 200 bytes"},
		{"deep", "POST", strings.Repeat("[", 150), 400, ""},
		{"GET", "GET", "", 405, "send a RateLimitRequest as JSON with POST"},
		{"PUT", "PUT", `{"domain":"ok"}`, 405, "send a RateLimitRequest as JSON with POST"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequest(test.method, "/json", strings.NewReader(test.body)))
			if got := w.Body.String(); w.Code != test.code || test.want != "" && got != test.want+"\n" {
				t.Errorf("got %d %q\nwant %d %q", w.Code, got, test.code, test.want)
			}
			if kind := w.Header().Get("Content-Type"); (kind == "application/json") != strings.HasPrefix(w.Body.String(), "{") {
				t.Errorf("content type %s of %s", kind, w.Body)
			}
		})
	}
}

func TestHealthcheck(t *testing.T) {
	var health Health
	handler := Public(Options{Health: func() Health { return health }, Metrics: prometheus.NewRegistry()})
	for _, test := range []struct {
		health Health
		code   int
		want   string
	}{
		{Health{Ready: true}, 200, "OK\n"},
		{Health{Ready: true, Reason: "degraded: b.yaml:1:1: no \xff"}, 200, "OK\ndegraded: b.yaml:1:1: no �\n"},
		{Health{Reason: "not ready: stopping"}, 503, "not ready: stopping\n"},
	} {
		health = test.health
		for _, method := range []string{"GET", "HEAD"} {
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequest(method, "/healthcheck", nil))
			if w.Code != test.code || w.Body.String() != test.want {
				t.Errorf("%s %+v: got %d %q, want %d %q", method, test.health, w.Code, w.Body, test.code, test.want)
			}
		}
	}
}

func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	counter := prometheus.NewCounter(prometheus.CounterOpts{Name: "things_total", Help: "Things."})
	registry.MustRegister(counter)
	counter.Add(3)
	w := httptest.NewRecorder()
	Public(Options{Metrics: registry}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 || !strings.Contains(w.Body.String(), "\nthings_total 3\n") {
		t.Errorf("got %d\n%s", w.Code, w.Body)
	}
}

func TestSlowClientsAreCutOff(t *testing.T) {
	o, _ := newAdmin(t)
	log := slog.New(slog.DiscardHandler)
	t.Run("public", func(t *testing.T) {
		cutsOff(t, NewServer(Public(Options{Ask: ask, MaxBody: 100, Metrics: prometheus.NewRegistry()}), log), "POST /json")
	})
	t.Run("admin", func(t *testing.T) { cutsOff(t, NewAdminServer(Admin(*o), log), "PUT /log_level") })
}

func cutsOff(t *testing.T, server *http.Server, what string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if server.ReadHeaderTimeout == 0 || server.ReadTimeout == 0 || server.WriteTimeout == 0 || server.IdleTimeout == 0 {
		t.Errorf("a time is without bound: %+v", server)
	}
	server.ReadHeaderTimeout, server.ReadTimeout = 50*time.Millisecond, 100*time.Millisecond
	go func() { _ = server.Serve(listener) }()
	defer server.Close()
	for name, begin := range map[string]string{
		"silent":      "",
		"half a head": what + " HTTP/1.1\r\nHost: localhost\r\n",
		"half a body": what + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n{",
	} {
		conn, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
		if _, err := io.WriteString(conn, begin); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(bufio.NewReader(conn)); err != nil {
			t.Errorf("%s: the connection stays: %v", name, err)
		}
		conn.Close()
	}
	request, err := http.NewRequest("GET", "http://"+listener.Addr().String()+"/healthcheck", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-Large", strings.Repeat("x", 100<<10))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("large headers: %s", response.Status)
	}
}
