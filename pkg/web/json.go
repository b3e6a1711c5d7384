package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protojson"
)

// jsonHandler answers /json: a RateLimitRequest in proto3 JSON gives a
// RateLimitResponse, with 200 when it is OK and 429 when it is over a limit.
type jsonHandler struct {
	ask     func(context.Context, *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error)
	maxBody int64
}

func (h *jsonHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		refuse(w, http.StatusMethodNotAllowed, "send a RateLimitRequest as JSON with POST")
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, h.maxBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		refuse(w, http.StatusRequestEntityTooLarge, "the body has more than %d bytes", tooLarge.Limit)
		return
	case err != nil:
		refuse(w, http.StatusBadRequest, "the body ended early: %v", err)
		return
	}
	var request rlsv3.RateLimitRequest
	if err := protojson.Unmarshal(body, &request); err != nil {
		refuse(w, http.StatusBadRequest, "the body is no RateLimitRequest: %s", readable(err))
		return
	}
	response, err := h.ask(r.Context(), &request)
	if err != nil {
		refuse(w, statusOf(err), "%v", err)
		return
	}
	writeResponse(w, response)
}

// writeResponse writes a response as one line of JSON.
func writeResponse(w http.ResponseWriter, response *rlsv3.RateLimitResponse) {
	text, err := protojson.Marshal(response)
	var line bytes.Buffer
	if err == nil { // protojson puts spaces where it likes
		err = json.Compact(&line, text)
	}
	if err != nil {
		refuse(w, http.StatusInternalServerError, "the answer cannot be written as JSON: %s", readable(err))
		return
	}
	line.WriteByte('\n')
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	switch response.GetOverallCode() {
	case rlsv3.RateLimitResponse_OK:
	case rlsv3.RateLimitResponse_OVER_LIMIT:
		w.WriteHeader(http.StatusTooManyRequests)
	default:
		w.WriteHeader(http.StatusInternalServerError)
	}
	_, _ = w.Write(line.Bytes())
}

// statusOf is the HTTP status that an error asks for.
func statusOf(err error) int {
	var known interface{ HTTPStatus() int }
	if errors.As(err, &known) {
		return known.HTTPStatus()
	}
	return http.StatusInternalServerError
}

// readable is the text of an error of package protojson without the spaces
// and the prefix that keep programs from relying on it.
func readable(err error) string {
	text := strings.ReplaceAll(err.Error(), "\u00a0", " ")
	return strings.TrimPrefix(text, "proto: ")
}
