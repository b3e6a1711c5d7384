package web

import (
	"log/slog"
	"net/http"
	"time"
)

// NewServer returns a server for the handlers of [Public], on which slow or
// silent clients cannot hold connections for long.
func NewServer(handler http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      15 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug), // faults of clients
	}
}

// NewAdminServer returns a server for the handlers of [Admin]. Its answers may
// take as long as a profile does.
func NewAdminServer(handler http.Handler, log *slog.Logger) *http.Server {
	server := NewServer(handler, log)
	server.WriteTimeout = 5 * time.Minute
	return server
}
