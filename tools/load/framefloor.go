package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"net"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/proto"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

// serveFrameFloor serves the frame floor: what is left of a rate limit service
// when it decides nothing. It reads frames, decodes headers and request, encodes
// a reply, and writes when nothing more has arrived. That every call is a small
// ShouldRateLimit by a client with room for the answer it takes for granted; it
// is a measure and no server.
func serveFrameFloor(address string, _ []string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	for {
		nc, err := listener.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer nc.Close()
			_ = newFrameFloor(nc).serve() // it ends with the client
		}()
	}
}

// frameFloor is a connection to the frame floor.
type frameFloor struct {
	in      *bufio.Reader
	out     *bufio.Writer
	framer  *http2.Framer
	decoder *hpack.Decoder
	encoder *hpack.Encoder
	block   bytes.Buffer // what encoder writes to
	message []byte
	taken   uint32 // bytes of DATA since the client was last told of room
}

func newFrameFloor(nc net.Conn) *frameFloor {
	c := &frameFloor{in: bufio.NewReaderSize(nc, 64<<10), out: bufio.NewWriterSize(nc, 64<<10)}
	c.framer = http2.NewFramer(c.out, c.in)
	c.framer.SetReuseFrames()
	c.decoder = hpack.NewDecoder(4096, func(hpack.HeaderField) {})
	c.encoder = hpack.NewEncoder(&c.block)
	return c
}

func (c *frameFloor) serve() error {
	if _, err := c.in.Discard(len(http2.ClientPreface)); err != nil {
		return err
	}
	if err := c.framer.WriteSettings(); err != nil {
		return err
	}
	if err := c.framer.WriteWindowUpdate(0, 1<<30); err != nil {
		return err
	}
	for {
		if c.in.Buffered() == 0 {
			if err := c.out.Flush(); err != nil {
				return err
			}
		}
		frame, err := c.framer.ReadFrame()
		if err == nil {
			err = c.take(frame)
		}
		if err != nil {
			return err
		}
	}
}

func (c *frameFloor) take(frame http2.Frame) error {
	switch f := frame.(type) {
	case *http2.SettingsFrame:
		if !f.IsAck() {
			return c.framer.WriteSettingsAck()
		}
	case *http2.PingFrame:
		if !f.IsAck() {
			return c.framer.WritePing(true, f.Data)
		}
	case *http2.HeadersFrame:
		_, err := c.decoder.Write(f.HeaderBlockFragment())
		return err
	case *http2.DataFrame:
		c.taken += uint32(len(f.Data()))
		if c.taken > refill {
			if err := c.framer.WriteWindowUpdate(0, c.taken); err != nil {
				return err
			}
			c.taken = 0
		}
		return c.answer(f.StreamID, f.Data())
	}
	return nil
}

// answer answers a framed message: headers, message, trailers.
func (c *frameFloor) answer(stream uint32, framed []byte) error {
	const prefix = 5
	if len(framed) < prefix {
		return io.ErrUnexpectedEOF
	}
	var request rlsv3.RateLimitRequest
	if err := proto.Unmarshal(framed[prefix:], &request); err != nil {
		return err
	}
	var err error
	if c.message, err = (proto.MarshalOptions{}).MarshalAppend(append(c.message[:0], make([]byte, prefix)...), allOK(&request)); err != nil {
		return err
	}
	binary.BigEndian.PutUint32(c.message[1:], uint32(len(c.message)-prefix))
	if err := c.headers(stream, false, hpack.HeaderField{Name: ":status", Value: "200"}, hpack.HeaderField{Name: "content-type", Value: "application/grpc"}); err != nil {
		return err
	}
	if err := c.framer.WriteData(stream, false, c.message); err != nil {
		return err
	}
	return c.headers(stream, true, hpack.HeaderField{Name: "grpc-status", Value: "0"})
}

func (c *frameFloor) headers(stream uint32, end bool, fields ...hpack.HeaderField) error {
	c.block.Reset()
	for _, f := range fields {
		if err := c.encoder.WriteField(f); err != nil {
			return err
		}
	}
	return c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: c.block.Bytes(), EndHeaders: true, EndStream: end})
}

// allOK is a reply with a status for each descriptor, as large as a real one
// without headers.
func allOK(request *rlsv3.RateLimitRequest) *rlsv3.RateLimitResponse {
	statuses := make([]*rlsv3.RateLimitResponse_DescriptorStatus, len(request.Descriptors))
	for i := range statuses {
		statuses[i] = &rlsv3.RateLimitResponse_DescriptorStatus{Code: rlsv3.RateLimitResponse_OK, LimitRemaining: 5}
	}
	return &rlsv3.RateLimitResponse{OverallCode: rlsv3.RateLimitResponse_OK, Statuses: statuses}
}
