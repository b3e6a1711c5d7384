package integration

import (
	"bytes"
	"encoding/binary"
	"net"
	"sync"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/proto"
)

// caller is a connection to ratelimitd on which a test writes frame by frame, as no gRPC library lets it.
type caller struct {
	nc     net.Conn
	framer *http2.Framer

	mu       sync.Mutex
	acks     int               // PINGs that were answered; guarded by mu, as is what follows
	messages map[uint32][]byte // by stream: the DATA of replies
	ended    map[uint32]bool   // streams that ratelimitd has ended
}

// call connects to the gRPC port.
func (s *ratelimitd) call(t *testing.T) *caller {
	t.Helper()
	nc, err := net.Dial("tcp", s.grpc)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	c := &caller{nc: nc, framer: http2.NewFramer(nc, nc), messages: map[uint32][]byte{}, ended: map[uint32]bool{}}
	if _, err := nc.Write([]byte(http2.ClientPreface)); err != nil {
		t.Fatal(err)
	}
	c.must(t, c.framer.WriteSettings())
	go c.read()
	return c
}

func (c *caller) must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// read takes in frames until the connection ends.
func (c *caller) read() {
	for {
		f, err := c.framer.ReadFrame()
		if err != nil {
			return
		}
		c.mu.Lock()
		switch f := f.(type) {
		case *http2.PingFrame:
			if f.IsAck() {
				c.acks++
			}
		case *http2.DataFrame:
			c.messages[f.StreamID] = append(c.messages[f.StreamID], f.Data()...)
		case *http2.HeadersFrame:
			c.ended[f.StreamID] = c.ended[f.StreamID] || f.StreamEnded()
		}
		c.mu.Unlock()
	}
}

// ask sends a request on a stream, and does not wait for its answer.
func (c *caller) ask(t *testing.T, stream uint32, request *rlsv3.RateLimitRequest, headers ...string) {
	t.Helper()
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	headers = append([]string{":method", "POST", ":scheme", "http", ":path", rateLimitPath, ":authority", "test",
		"content-type", "application/grpc", "te", "trailers"}, headers...)
	for i := 0; i < len(headers); i += 2 {
		c.must(t, encoder.WriteField(hpack.HeaderField{Name: headers[i], Value: headers[i+1], Sensitive: true}))
	}
	message, err := proto.Marshal(request)
	c.must(t, err)
	c.must(t, c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block.Bytes(), EndHeaders: true}))
	c.must(t, c.framer.WriteData(stream, true, append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)))
}

// awaitRead waits until ratelimitd has read all that was sent, and something else reads on while it decides.
func (c *caller) awaitRead(t *testing.T) {
	t.Helper()
	before := c.pings()
	waitFor(t, 20*time.Second, "an answer to PING", func() bool {
		c.must(t, c.framer.WritePing(false, [8]byte{}))
		return c.pings() > before
	})
}

func (c *caller) pings() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.acks
}

// awaitAnswer waits until ratelimitd has ended a stream, and returns its reply; nil when that was an error.
func (c *caller) awaitAnswer(t *testing.T, stream uint32) *rlsv3.RateLimitResponse {
	t.Helper()
	waitFor(t, 20*time.Second, "the answer", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.ended[stream]
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.messages[stream]) < 5 {
		return nil
	}
	reply := new(rlsv3.RateLimitResponse)
	c.must(t, proto.Unmarshal(c.messages[stream][5:], reply))
	return reply
}

// asking asks about descriptors of one entry each, given as keys and values.
func asking(pairs ...string) *rlsv3.RateLimitRequest {
	request := &rlsv3.RateLimitRequest{Domain: "edge"}
	for i := 0; i < len(pairs); i += 2 {
		request.Descriptors = append(request.Descriptors, &ratelimitv3.RateLimitDescriptor{
			Entries: []*ratelimitv3.RateLimitDescriptor_Entry{{Key: pairs[i], Value: pairs[i+1]}},
		})
	}
	return request
}
