package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"net/textproto"
	"net/url"
	"time"

	"golang.org/x/net/http2"
)

// openOther has [Options.Other] serve a stream that was just opened.
func (c *conn) openOther(call *Call, h *head) {
	target, err := url.ParseRequestURI(h.path)
	if err != nil {
		call.problem = unknownMethod(h.path)
		return
	}
	e := &exchange{c: c, call: call, header: http.Header{}}
	ctx := context.WithValue(c.ctx, http.LocalAddrContextKey, c.nc.LocalAddr())
	ctx, e.cancel = context.WithCancel(ctx)
	request := &http.Request{
		Method:        h.method,
		URL:           target,
		Proto:         "HTTP/2.0",
		ProtoMajor:    2,
		Header:        http.Header{},
		Body:          requestBody{e},
		ContentLength: h.contentLength,
		Host:          h.authority,
		RequestURI:    h.path,
		RemoteAddr:    c.nc.RemoteAddr().String(),
	}
	if request.Host == "" {
		request.Host = h.host
	}
	if secure, ok := c.nc.(*tls.Conn); ok {
		state := secure.ConnectionState()
		request.TLS = &state
	}
	for _, f := range c.fields {
		if f.Name[0] != ':' && f.Name != "host" {
			key := textproto.CanonicalMIMEHeaderKey(f.Name)
			request.Header[key] = append(request.Header[key], f.Value)
		}
	}
	call.other = e
	c.others++
	c.server.others.Add(1)
	c.server.metrics.other.Inc()
	go e.serve(request.WithContext(ctx))
}

// serve runs the handler.
func (e *exchange) serve(request *http.Request) {
	c := e.c
	panicked := e.run(request)
	e.cancel()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = time.Now()
	c.others--
	c.server.others.Add(-1)
	if !e.call.gone {
		if panicked {
			c.reset(e.call, http2.ErrCodeInternal)
		} else {
			e.sendTrailers()
		}
	}
	c.flush()
	c.settle()
}

func (e *exchange) run(request *http.Request) (panicked bool) {
	defer func() {
		if p := recover(); p != nil {
			panicked = true
			if err, isError := p.(error); !isError || !errors.Is(err, http.ErrAbortHandler) {
				e.c.server.panic(p)
			}
		}
	}()
	e.c.server.options.Other.ServeHTTP(responseWriter{e}, request)
	return false
}

// toOther hands DATA of the given size, padding included, to the handler.
func (c *conn) toOther(call *Call, b []byte, size int) {
	e := call.other
	if c.buffered+int64(len(b)) > int64(c.server.options.MaxBuffered) {
		c.reset(call, http2.ErrCodeEnhanceYourCalm)
		return
	}
	call.buffered += len(b)
	c.buffered += int64(len(b))
	c.server.buffered.Add(int64(len(b)))
	e.body = append(e.body, b...)
	e.consumed += int64(size - len(b))
	c.room.Broadcast()
}
