package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

// refill is how many bytes of DATA may be received before the server is told
// that it may send as many more.
const refill = 1 << 28

// receive reads answers until there is one for each call.
func (c *connection) receive() {
	defer close(c.ended)
	r := receiver{
		connection: c,
		framer:     http2.NewFramer(nil, bufio.NewReaderSize(c.nc, 64<<10)),
		codes:      make([]uint8, c.share),
	}
	r.framer.SetReuseFrames()
	r.decoder = hpack.NewDecoder(4096, r.header)
	for len(c.latencies) < c.share && c.err == nil {
		frame, err := r.framer.ReadFrame()
		if err != nil {
			c.err = fmt.Errorf("after %d of %d answers: %w", len(c.latencies), c.share, err)
			return
		}
		c.err = r.take(frame)
	}
}

// receiver is the receiving half of a connection.
type receiver struct {
	*connection

	framer   *http2.Framer
	decoder  *hpack.Decoder
	codes    []uint8 // the overall code of each call's answer; 0: none yet
	received uint32  // bytes of DATA since the last refill

	status, message string // of the headers that are being read
}

// header is called for each header of a block.
func (r *receiver) header(f hpack.HeaderField) {
	switch f.Name {
	case "grpc-status":
		r.status = f.Value
	case "grpc-message":
		r.message = f.Value
	}
}

// take takes in a frame.
func (r *receiver) take(frame http2.Frame) error {
	switch f := frame.(type) {
	case *http2.DataFrame:
		return r.data(f)
	case *http2.HeadersFrame:
		r.status, r.message = "", ""
		if !f.HeadersEnded() {
			return errors.New("the headers of an answer take several frames")
		}
		if _, err := r.decoder.Write(f.HeaderBlockFragment()); err != nil {
			return err
		}
		if f.StreamEnded() {
			r.finish(f.StreamID, r.status == "0", "grpc-status "+r.status+" "+r.message)
		}
	case *http2.RSTStreamFrame:
		r.finish(f.StreamID, false, "the stream was reset: "+f.ErrCode.String())
	case *http2.SettingsFrame:
		if size, ok := f.Value(http2.SettingHeaderTableSize); ok && size < 4096 {
			return errors.New("the server's header table is too small")
		}
		if !f.IsAck() {
			return r.write(func(f *http2.Framer) error { return f.WriteSettingsAck() })
		}
	case *http2.PingFrame:
		if data := f.Data; !f.IsAck() {
			return r.write(func(f *http2.Framer) error { return f.WritePing(true, data) })
		}
	case *http2.WindowUpdateFrame:
		if f.StreamID == 0 {
			r.credit.Add(int64(f.Increment))
			select {
			case r.more <- struct{}{}:
			default:
			}
		}
	case *http2.GoAwayFrame:
		return fmt.Errorf("the server says GOAWAY: %s %s", f.ErrCode, f.DebugData())
	}
	return nil
}

// data takes in a message, or nothing where a stream ends with an empty frame.
func (r *receiver) data(f *http2.DataFrame) error {
	if i := int(f.StreamID / 2); i < len(r.codes) && len(f.Data()) > 0 {
		r.codes[i] = uint8(overallCode(f.Data()))
	}
	if f.StreamEnded() {
		r.finish(f.StreamID, false, "the stream ended without a status")
	}
	r.received += uint32(len(f.Data()))
	if r.received < refill {
		return nil
	}
	n := r.received
	r.received = 0
	return r.write(func(f *http2.Framer) error { return f.WriteWindowUpdate(0, n) })
}

// finish takes down how a call ended.
func (r *receiver) finish(stream uint32, good bool, failure string) {
	i := int(stream / 2)
	if i >= r.share {
		return
	}
	r.latencies = append(r.latencies, time.Since(r.begin)-time.Duration(r.due[i].Load()))
	code := rlsv3.RateLimitResponse_Code(r.codes[i])
	switch {
	case good && code == rlsv3.RateLimitResponse_OK:
		r.ok++
	case good && code == rlsv3.RateLimitResponse_OVER_LIMIT:
		r.over++
	default:
		if good {
			failure = "an answer with the code " + code.String()
		}
		r.failed++
		if r.failure == "" {
			r.failure = failure
		}
	}
	<-r.slots
}

// write writes a frame beside those that send writes, each of whose writes is
// of whole frames.
func (r *receiver) write(frame func(*http2.Framer) error) error {
	var b bytes.Buffer
	if err := frame(http2.NewFramer(&b, nil)); err != nil {
		return err
	}
	_, err := r.nc.Write(b.Bytes())
	return err
}
