package web

import (
	"encoding/json"
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

	// Further pages are served besides.
	Further []Page

	// Elsewhere, if not nil, is shown on / and wherever there is no page, for
	// all pages that there are. Otherwise / has a list of them, and elsewhere
	// nothing is found.
	Elsewhere func(pages []Page) http.HandlerFunc

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

// pages are those of every program, and further ones.
func (o *AdminOptions) pages() []Page {
	metrics := promhttp.HandlerFor(o.Metrics, promhttp.HandlerOpts{MaxRequestsInFlight: 4})
	return append([]Page{
		{Path: "/rules", About: "the rules in force", Show: o.rules, Large: true},
		{Path: "/rules.json", About: "the same for programs", Show: o.rulesJSON, Large: true},
		{Path: "/status", About: "version, readiness, the last load of the policy files", Show: o.status},
		{Path: "/settings", About: "the settings in force and where each comes from", Show: o.settings},
		{Path: "/log_level", About: "the log level; PUT debug, info, warn or error to change it", Show: o.logLevel},
		{Path: "/metrics", About: "metrics for Prometheus", Show: metrics.ServeHTTP},
		{Path: "/debug/pprof/", About: "profiles of the running program", Show: pprof.Index},
	}, o.Further...)
}

// Admin returns the pages for operators, none of them open to others: see the
// options Token and Secured.
func Admin(o AdminOptions) http.Handler {
	mux, pages := http.NewServeMux(), o.pages()
	turns := make(chan struct{}, maxMaking)
	for _, page := range pages {
		show := http.Handler(page.Show)
		if page.Large {
			show = inTurn(turns, turnWait, page.Show)
		}
		mux.Handle("GET "+page.Path, show)
	}
	mux.HandleFunc("PUT /log_level", o.setLogLevel)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	if o.Elsewhere != nil {
		mux.HandleFunc("/", o.Elsewhere(pages))
	} else {
		mux.HandleFunc("GET /{$}", front(pages))
	}
	return guard(o.Token, o.Secured, mux)
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
