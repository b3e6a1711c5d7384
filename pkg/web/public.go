package web

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Health is what /healthcheck tells.
type Health struct {
	// Ready is whether requests should be sent here.
	Ready bool

	// Reason says why not, or what is wrong all the same. Empty: all is well.
	Reason string
}

// Options are what the public pages show.
type Options struct {
	// Ask answers a request. An error may have a method HTTPStatus() int;
	// others are 500. Ask is called by several goroutines at once.
	Ask func(context.Context, *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error)

	// Health is asked at every /healthcheck.
	Health func() Health

	// Metrics are shown by /metrics.
	Metrics prometheus.Gatherer

	// MaxBody is the largest body of a request to /json, in bytes.
	MaxBody int64
}

// Public returns the pages for everybody: /json, /healthcheck and /metrics.
func Public(o Options) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/json", &jsonHandler{ask: o.Ask, maxBody: o.MaxBody})
	mux.Handle("GET /healthcheck", healthHandler(o.Health))
	mux.Handle("GET /metrics", promhttp.HandlerFor(o.Metrics, promhttp.HandlerOpts{MaxRequestsInFlight: 4}))
	return mux
}

// healthHandler answers "OK", with a line that says what is wrong if
// something is, or 503 with the reason.
func healthHandler(health func() Health) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		h := health()
		w.Header().Set("Cache-Control", "no-store")
		text := "OK\n"
		switch {
		case !h.Ready:
			text = h.Reason + "\n"
		case h.Reason != "":
			text += h.Reason + "\n"
		}
		code := http.StatusOK
		if !h.Ready {
			code = http.StatusServiceUnavailable
		}
		writeText(w, code, text)
	}
}

// writeText answers with a text. What is not UTF-8 in it is replaced.
func writeText(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, strings.ToValidUTF8(text, "�")) //nolint:gosec // no browser takes it for a page
}

// refuse answers with the reason why a request cannot be answered.
func refuse(w http.ResponseWriter, code int, format string, args ...any) {
	writeText(w, code, fmt.Sprintf(format, args...)+"\n")
}
