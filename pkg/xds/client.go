package xds

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/ratelimitd/ratelimitd/internal/certificates"
	"github.com/ratelimitd/ratelimitd/pkg/descriptors"
)

// Options say where the control plane is and who gets its policies.
type Options struct {
	// Server is host:port, or another target of gRPC, such as
	// unix:///path.
	Server string

	// NodeID and NodeMetadata tell the control plane who asks.
	NodeID       string
	NodeMetadata map[string]string

	// Headers go with the stream, as a token does.
	Headers map[string]string

	// TLS is how the server is trusted; nil is plaintext.
	TLS *TLS

	// MaxMessage is the largest response in bytes; 0 is 64 MiB.
	MaxMessage int

	Backoff Backoff

	// Apply takes all policies that there are, in place of those before. It
	// returns why they are refused, and then none of them is in force. It is
	// called for one response after the other.
	Apply func([]descriptors.File) error

	// Version is that of this program, for the control plane to see.
	Version string

	Log        *slog.Logger
	Registerer prometheus.Registerer
}

// Client keeps a stream to a control plane. Its methods may be called from
// several goroutines; Run, once.
type Client struct {
	o       Options
	node    *corev3.Node
	metrics *metrics

	// certificates are those of Options.TLS; nil: plaintext.
	certificates *certificates.Source

	// version is that of the last response that was taken, for those that are
	// not.
	version string

	// down is why there is no stream.
	down atomic.Pointer[error]
}

var errNotYet = errors.New("not connected yet")

// New makes a client that does nothing yet. It fails when the metrics are
// registered already.
func New(o Options) (*Client, error) {
	c := &Client{o: o, node: node(&o)}
	c.down.Store(&errNotYet)
	if o.TLS != nil {
		c.certificates = certificates.NewSource(o.TLS.Files, o.Log)
	}
	c.metrics = newMetrics(c)
	if err := o.Registerer.Register(c.metrics); err != nil {
		return nil, fmt.Errorf("xds: %w", err)
	}
	return c, nil
}

// node is how the client introduces itself.
func node(o *Options) *corev3.Node {
	n := &corev3.Node{
		Id: o.NodeID, UserAgentName: "ratelimitd",
		UserAgentVersionType: &corev3.Node_UserAgentVersion{UserAgentVersion: o.Version},
	}
	if len(o.NodeMetadata) > 0 {
		n.Metadata = &structpb.Struct{Fields: make(map[string]*structpb.Value, len(o.NodeMetadata))}
		for name, value := range o.NodeMetadata {
			n.Metadata.Fields[name] = structpb.NewStringValue(value)
		}
	}
	return n
}

// Err is why there is no stream to the control plane now; nil if there is one.
func (c *Client) Err() error {
	if err := *c.down.Load(); err != nil {
		return fmt.Errorf("control plane %s: %s", c.o.Server, plain(err))
	}
	return nil
}

// Run asks for policies until ctx is done, on one stream after the other.
func (c *Client) Run(ctx context.Context) {
	for try := 0; ; try++ {
		answered, err := c.stream(ctx)
		if ctx.Err() != nil {
			return
		}
		c.down.Store(&err)
		if answered {
			try = 0
		}
		wait := c.o.Backoff.wait(try, rand.Float64())
		c.o.Log.Warn("no control plane; what it has said so far stays in force",
			"server", c.o.Server, "error", plain(err), "next_try", wait.Round(time.Millisecond))
		if !sleep(ctx, wait) {
			return
		}
	}
}

// plain says in words why a stream ended.
func plain(err error) string {
	if errors.Is(err, io.EOF) {
		return "it has ended the stream"
	}
	if s, ok := status.FromError(err); ok {
		return s.Code().String() + ": " + s.Message()
	}
	return err.Error()
}

// sleep reports false if ctx ended it.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
