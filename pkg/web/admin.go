package web

import (
	"encoding/json"
	"fmt"
	"html"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/ratelimitd/ratelimitd/pkg/descriptors"
)

// AdminOptions are what the admin pages show. The functions are asked at every
// request, by several goroutines at once.
type AdminOptions struct {
	Version  string
	Health   func() Health
	Policies func() Policies
	Metrics  prometheus.Gatherer

	// Token, if not empty, is what every request has to carry as
	// "Authorization: Bearer" token.
	Token string

	// Secured says that the listener lets in only those who may see the pages,
	// as one that asks clients for certificates does. If it is false and there
	// is no Token, the listener must be on loopback.
	Secured bool

	// Settings are shown as they are: secrets must be masked.
	Settings []Setting

	// LogLevel can be changed.
	LogLevel *slog.LevelVar
	Log      *slog.Logger
}

// Policies is what the admin pages tell of the policy files.
type Policies struct {
	Rules *descriptors.Rules // in force; nil: none yet
	Since time.Time          // when they came into force

	Err    error     // why the newest files are not in force; nil: they are
	Failed time.Time // when Err was found
}

// Setting is one setting in force.
type Setting struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Origin string `json:"origin"`
}

// adminPages are listed on the front page.
var adminPages = [...]struct{ path, about string }{
	{"/rules", "the rules in force"},
	{"/rules.json", "the same for programs"},
	{"/status", "version, readiness, the last load of the policy files"},
	{"/settings", "the settings in force and where each comes from"},
	{"/log_level", "the log level; PUT debug, info, warn or error to change it"},
	{"/metrics", "metrics for Prometheus"},
	{"/debug/pprof/", "profiles of the running program"},
}

// Admin returns the pages for operators, none of them open to others: see the
// options Token and Secured.
func Admin(o AdminOptions) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", index)
	mux.HandleFunc("GET /rules", o.rules)
	mux.HandleFunc("GET /rules.json", o.rulesJSON)
	mux.HandleFunc("GET /status", o.status)
	mux.HandleFunc("GET /settings", o.settings)
	mux.HandleFunc("GET /log_level", o.logLevel)
	mux.HandleFunc("PUT /log_level", o.setLogLevel)
	mux.Handle("GET /metrics", promhttp.HandlerFor(o.Metrics, promhttp.HandlerOpts{MaxRequestsInFlight: 4}))
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return guard(o.Token, o.Secured, mux)
}

func index(w http.ResponseWriter, _ *http.Request) {
	var b strings.Builder
	b.WriteString("<!DOCTYPE html><title>ratelimitd</title><h1>ratelimitd</h1><ul>\n")
	for _, page := range adminPages {
		fmt.Fprintf(&b, "<li><a href=%q>%s</a>: %s\n", page.path, page.path, html.EscapeString(page.about))
	}
	b.WriteString("</ul>\n")
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write([]byte(b.String()))
}

func (o *AdminOptions) status(w http.ResponseWriter, _ *http.Request) {
	type status struct {
		Version  string     `json:"version"`
		Ready    bool       `json:"ready"`
		Reason   string     `json:"reason,omitempty"`
		Revision string     `json:"revision,omitempty"`
		Since    *time.Time `json:"in_force_since,omitempty"`
		Domains  int        `json:"domains"`
		Limits   int        `json:"limits"`
		Errors   []string   `json:"load_errors,omitempty"`
		Failed   *time.Time `json:"load_failed_at,omitempty"`
	}
	health, p := o.Health(), o.Policies()
	s := status{Version: o.Version, Ready: health.Ready, Reason: health.Reason}
	if p.Rules != nil {
		s.Revision, s.Domains, s.Limits, s.Since = p.Rules.Revision(), len(p.Rules.Domains()), len(p.Rules.Limits()), &p.Since
	}
	if p.Err != nil {
		s.Errors, s.Failed = strings.Split(p.Err.Error(), "\n"), &p.Failed
	}
	writeJSON(w, s)
}

func (o *AdminOptions) settings(w http.ResponseWriter, _ *http.Request) { writeJSON(w, o.Settings) }

func (o *AdminOptions) logLevel(w http.ResponseWriter, _ *http.Request) {
	writeText(w, http.StatusOK, strings.ToLower(o.LogLevel.Level().String())+"\n")
}

// setLogLevel takes the level as body. Only PUT: no page of another site can
// make a browser send that without asking first.
func (o *AdminOptions) setLogLevel(w http.ResponseWriter, r *http.Request) {
	word := make([]byte, 16)
	n, _ := r.Body.Read(word)
	var level slog.Level
	if err := level.UnmarshalText([]byte(strings.TrimSpace(string(word[:n])))); err != nil {
		refuse(w, http.StatusBadRequest, "%q is no level; one of debug, info, warn, error", word[:n])
		return
	}
	o.LogLevel.Set(level)
	o.Log.Warn("log level changed", "to", level)
	o.logLevel(w, r)
}

func writeJSON(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	_ = encoder.Encode(value)
}
