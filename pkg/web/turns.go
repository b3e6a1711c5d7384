package web

import (
	"net/http"
	"time"
)

const (
	// maxMaking is how many pages with all rules are made at a time: one of 100,000
	// takes 50 MB while it is.
	maxMaking = 4

	// turnWait is how long a request for one may wait for its turn.
	turnWait = 5 * time.Second
)

// inTurn has a page be made when there is a turn free, and answers 503 when none
// comes free in time.
func inTurn(turns chan struct{}, wait time.Duration, page http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		late := time.NewTimer(wait)
		defer late.Stop()
		select {
		case turns <- struct{}{}:
			defer func() { <-turns }()
			page(w, r)
		case <-r.Context().Done():
		case <-late.C:
			refuse(w, http.StatusServiceUnavailable, "%d pages are being made already; ask again", cap(turns))
		}
	})
}
