package transport

import (
	"context"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http2"
)

// exchange is a request that [Options.Other] answers, and its reply.
type exchange struct {
	c      *conn
	call   *Call
	cancel context.CancelFunc

	// Owned by the handler.
	header   http.Header
	declared []string // keys of header that are trailers
	begun    bool     // headers were sent

	// Guarded by c.mu.
	body     []byte // what has arrived and was not read
	consumed int64  // of the stream's window, and not given back
	ended    bool   // all of the body has arrived
}

// finish says that all of the request has arrived.
func (e *exchange) finish() {
	e.ended = true
	e.c.room.Broadcast()
}

// end says that the stream is not open any more.
func (e *exchange) end() {
	e.cancel()
	e.c.room.Broadcast()
}

// requestBody is a request's body.
type requestBody struct{ e *exchange }

// Read waits for a part of the body.
func (r requestBody) Read(p []byte) (int, error) {
	e, c := r.e, r.e.c
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(e.body) == 0 && !e.ended && !e.call.gone && len(p) > 0 {
		c.room.Wait()
	}
	if len(e.body) == 0 {
		if e.ended {
			return 0, io.EOF
		}
		return 0, io.ErrUnexpectedEOF
	}
	n := copy(p, e.body)
	if e.body = e.body[n:]; len(e.body) == 0 {
		e.body = nil
	}
	if e.call.gone { // what it held was released already
		return n, nil
	}
	e.call.buffered -= n
	c.buffered -= int64(n)
	c.server.buffered.Add(int64(-n))
	if e.consumed += int64(n); e.consumed >= streamWindow/2 && !e.ended {
		c.out = appendWindowUpdate(c.out, e.call.id, e.consumed)
		e.call.taken -= e.consumed
		e.consumed = 0
		c.flush()
	}
	return n, nil
}

// Close does nothing: what nobody reads is bounded by the stream's window.
func (requestBody) Close() error { return nil }

// responseWriter writes a reply. Like that of net/http it is for one goroutine.
type responseWriter struct{ e *exchange }

// Header returns the headers, and after [responseWriter.Write] the trailers.
func (w responseWriter) Header() http.Header { return w.e.header }

// WriteHeader sends the headers, once.
func (w responseWriter) WriteHeader(status int) {
	w.e.c.mu.Lock()
	defer w.e.c.mu.Unlock()
	w.e.sendHeaders(status)
}

// Write sends a part of the body, as the client takes it.
func (w responseWriter) Write(p []byte) (int, error) {
	e, c := w.e, w.e.c
	c.mu.Lock()
	defer c.mu.Unlock()
	e.sendHeaders(http.StatusOK)
	for sent := 0; sent < len(p); {
		n := min(int64(len(p)-sent), maxFrame, c.window(e.call), c.outWindow)
		if e.call.gone {
			return sent, context.Canceled
		}
		if n <= 0 || len(c.out) > largeBuffer {
			c.flush()
			if n <= 0 || c.writing {
				c.room.Wait()
			}
			continue
		}
		c.out = appendFrame(c.out, int(n), http2.FrameData, 0, e.call.id)
		c.out = append(c.out, p[sent:sent+int(n)]...)
		c.outWindow -= n
		e.call.credit -= n
		sent += int(n)
	}
	return len(p), nil
}

// Flush writes what was sent.
func (w responseWriter) Flush() {
	w.e.c.mu.Lock()
	defer w.e.c.mu.Unlock()
	w.e.sendHeaders(http.StatusOK)
	w.e.c.now = time.Now()
	w.e.c.flush()
}

// sendHeaders sends the headers unless they were sent.
func (e *exchange) sendHeaders(status int) {
	if e.begun {
		return
	}
	e.begun = true
	for _, value := range e.header["Trailer"] {
		for key := range strings.SplitSeq(value, ",") {
			e.declared = append(e.declared, http.CanonicalHeaderKey(strings.TrimSpace(key)))
		}
	}
	if e.call.gone {
		return
	}
	e.c.headers(e.call.id, 0, func(b []byte) []byte {
		b = appendStatus(e.c.table.begin(b), status)
		for _, key := range slices.Sorted(maps.Keys(e.header)) {
			if key != "Trailer" && !slices.Contains(e.declared, key) && !strings.HasPrefix(key, http.TrailerPrefix) {
				b = appendHeader(b, key, e.header[key])
			}
		}
		return b
	})
}

// sendTrailers ends the reply.
func (e *exchange) sendTrailers() {
	e.sendHeaders(http.StatusOK)
	var block []byte
	for _, key := range slices.Sorted(maps.Keys(e.header)) {
		name, prefixed := strings.CutPrefix(key, http.TrailerPrefix)
		if prefixed || slices.Contains(e.declared, key) {
			block = appendHeader(block, name, e.header[key])
		}
	}
	if len(block) == 0 {
		e.c.out = appendFrame(e.c.out, 0, http2.FrameData, http2.FlagDataEndStream, e.call.id)
	} else {
		e.c.headers(e.call.id, http2.FlagHeadersEndStream, func(b []byte) []byte {
			return append(e.c.table.begin(b), block...)
		})
	}
	e.c.done(e.call)
}

// appendHeader appends the values of a header, unless HTTP/2 has no place for
// it.
func appendHeader(b []byte, key string, values []string) []byte {
	name := strings.ToLower(key)
	switch name {
	case "connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade":
		return b
	}
	for _, value := range values {
		b = appendField(b, 0, name, value)
	}
	return b
}
