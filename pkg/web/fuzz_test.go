package web

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
)

// request makes a request of what a fuzzer says; nil if a server would not have
// read it.
func request(t *testing.T, method, target, host, body string) *http.Request {
	t.Helper()
	u, err := url.ParseRequestURI(target)
	if err != nil || u.Host != "" || strings.ContainsAny(method, " \r\n") || method == "" {
		return nil
	}
	r := httptest.NewRequest("POST", "/", strings.NewReader(body))
	r.Method, r.URL, r.RequestURI, r.Host = method, u, target, host
	ctx, cancel := context.WithTimeout(r.Context(), 20*time.Millisecond) // profiles end with their client
	t.Cleanup(cancel)
	return r.WithContext(ctx)
}

// checkAnswer holds for every page of both listeners.
func checkAnswer(t *testing.T, w *httptest.ResponseRecorder, target string) {
	t.Helper()
	kind := w.Header().Get("Content-Type")
	if w.Code < 200 || w.Code > 599 || len(w.Body.Bytes()) > 1<<20 {
		t.Errorf("%q: status %d, %d bytes", target, w.Code, w.Body.Len())
	}
	if strings.HasPrefix(kind, "text/plain") && !utf8.Valid(w.Body.Bytes()) {
		t.Errorf("%q: text that is not UTF-8: %q", target, w.Body)
	}
	for name, values := range w.Header() {
		if strings.ContainsAny(name+strings.Join(values, ""), "\r\n") {
			t.Errorf("%q: header %q: %q", target, name, values)
		}
	}
}

// FuzzPublic sends anything to the pages for everybody.
func FuzzPublic(f *testing.F) {
	handler := Public(Options{Ask: ask, MaxBody: 4096, Metrics: prometheus.NewRegistry(), Health: func() Health { return Health{Ready: true} }})
	for _, body := range []string{
		`{"domain":"ok"}`, `{"domain":"over"}`, `{"domain":"hits","hitsAddend":4294967295}`, `{"domain":"\ud800"}`, `{"domain":"bytes"}`,
		`{"domain":"ok","descriptors":[{"entries":[{"key":"a","value":"b"}],"limit":{"requestsPerUnit":1,"unit":"HOUR"},"hitsAddend":"18446744073709551615"}]}`,
		strings.Repeat("[", 4000), `{"domain":` + strings.Repeat(`{"a":`, 600), `{"@type":"x"}`, "\xff",
	} {
		f.Add("POST", "/json", body)
	}
	f.Add("GET", "/healthcheck?a=%zz;b", "")
	f.Add("GET", "/metrics?name[]=a", "")
	f.Add("PRI", "//json/../json", "")
	f.Add("GET", "/%2e%2e/json", "")
	f.Fuzz(func(t *testing.T, method, target, body string) {
		r := request(t, method, target, "x", body)
		if r == nil {
			return
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		checkAnswer(t, w, target)
	})
}

// FuzzAdmin sends anything to the admin pages: who has no token learns nothing,
// and the only thing that changes is the log level, by PUT.
func FuzzAdmin(f *testing.F) {
	o, _ := newAdmin(f)
	for _, page := range o.pages() {
		f.Add("GET", page.Path, "localhost", "", "")
	}
	f.Add("PUT", "/log_level", "[::1]:6070", "", "debug")
	f.Add("PUT", "/log_level", "localhost", "Bearer correct-horse-battery", "warn\n")
	f.Add("GET", "/debug/pprof/heap?seconds=1", "127.0.0.1", "bearer x", "")
	f.Add("GET", "/debug/pprof/profile?seconds=99999999999", "localhost", "", "")
	f.Add("GET", "/debug/pprof/goroutine?debug=2", "localhost", "", "")
	f.Add("GET", "/debug/pprof/cmdline", "localhost:", "", "")
	f.Add("POST", "/debug/pprof/symbol?0x1+0x2", "evil.example", "", "0x1")
	f.Add("GET", "/rules", "\xff\x00", "Bearer", "")
	f.Fuzz(func(t *testing.T, method, target, host, authorization, body string) {
		for _, token := range []string{"", "correct-horse-battery"} {
			o, _ := newAdmin(t)
			o.Token = token
			r := request(t, method, target, host, body)
			if r == nil {
				return
			}
			r.Header["Authorization"] = []string{authorization}
			before := o.LogLevel.Level()
			w := httptest.NewRecorder()
			Admin(*o).ServeHTTP(w, r)
			checkAnswer(t, w, target)
			let := isLocal(host)
			if token != "" {
				scheme, word, _ := strings.Cut(authorization, " ")
				let = strings.EqualFold(scheme, "bearer") && strings.TrimSpace(word) == token
			}
			if let == (w.Code == http.StatusUnauthorized || w.Code == http.StatusMisdirectedRequest) {
				t.Errorf("%q of host %q with %q: %d", target, host, authorization, w.Code)
			}
			if o.LogLevel.Level() != before && (method != "PUT" || !let) {
				t.Errorf("%s %q has changed the log level", method, target)
			}
		}
	})
}
