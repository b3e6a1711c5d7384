package main

import (
	"context"
	"errors"
	"net/http"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/ratelimitd/ratelimitd/pkg/service"
	"github.com/ratelimitd/ratelimitd/pkg/web"
)

// asker answers requests of /json.
func asker(s *service.Service) func(context.Context, *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error) {
	return func(ctx context.Context, r *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error) {
		response, err := s.ShouldRateLimit(ctx, r)
		if known, ok := errors.AsType[*service.Error](err); ok {
			return nil, httpError{known}
		}
		return response, err
	}
}

// httpError gives an error of the service its status over HTTP.
type httpError struct{ cause *service.Error }

func (e httpError) Error() string { return e.cause.Error() }
func (e httpError) Unwrap() error { return e.cause }

// HTTPStatus is for package web.
func (e httpError) HTTPStatus() int {
	switch e.cause.Kind {
	case service.InvalidArgument:
		return http.StatusBadRequest
	case service.Internal:
		return http.StatusInternalServerError
	}
	return http.StatusServiceUnavailable
}

// closing asks clients of HTTP/1 to open no further request on their
// connection once the program is stopping.
func closing(ready *readiness, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if ready.draining.Load() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// adminSettings are the settings as the admin pages show them.
func (m *Main) adminSettings() []web.Setting {
	if m.Compat != nil {
		return compatValues(m.Compat)
	}
	values := m.Settings.Values()
	shown := make([]web.Setting, len(values))
	for i, v := range values {
		shown[i] = web.Setting{Name: v.Name, Value: v.Text, Origin: v.Origin}
	}
	return shown
}
