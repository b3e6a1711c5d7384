package xds

import (
	"context"
	"fmt"
	"strings"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/ratelimitd/ratelimitd/pkg/xds/resource"
)

const (
	// firstPause and longestPause bound how long a refusal waits that comes
	// after another one. Some servers send what was refused again as soon as
	// they hear of it.
	firstPause   = 100 * time.Millisecond
	longestPause = 5 * time.Second

	// longestMessage bounds the text of a refusal, for it travels in a message
	// of gRPC.
	longestMessage = 16 << 10
)

// stream asks for policies and takes them until the stream ends. It reports
// whether the server answered at all.
func (c *Client) stream(ctx context.Context) (answered bool, err error) {
	conn, err := c.dial()
	if err != nil {
		return false, err
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ctx = metadata.NewOutgoingContext(ctx, metadata.New(c.o.Headers))
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(ctx)
	if err != nil {
		return false, err
	}
	// Without a version, so that everything comes: see the package's comment.
	reply := &discoveryv3.DiscoveryRequest{Node: c.node, TypeUrl: resource.TypeURL}
	pause := time.Duration(0)
	for told := ""; ; {
		if err := stream.Send(reply); err != nil {
			return answered, end(stream)
		}
		if !answered {
			c.connected()
		}
		response, err := stream.Recv()
		if err != nil {
			return answered, err
		}
		answered = true
		if err = c.take(response); err == nil {
			c.version = response.GetVersionInfo()
		}
		reply = c.reply(response, err)
		if err == nil {
			told, pause = "", 0
			continue
		}
		if text := err.Error(); text != told {
			told = text
			first, _, _ := strings.Cut(cut(text), "\n")
			c.o.Log.Error("what the control plane sent is refused", "version", response.GetVersionInfo(), "error", first)
		}
		sleep(ctx, pause)
		pause = min(max(2*pause, firstPause), longestPause)
	}
}

// end reads a stream that takes no more requests to its end, and says why it
// ended.
func end(stream discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesClient) error {
	for {
		if _, err := stream.Recv(); err != nil {
			return err
		}
	}
}

// connected notes that there is a stream.
func (c *Client) connected() {
	var none error
	c.down.Store(&none)
	c.o.Log.Info("connected to the control plane", "server", c.o.Server, "node", c.o.NodeID)
}

// take hands on the policies of a response.
func (c *Client) take(response *discoveryv3.DiscoveryResponse) error {
	if response.GetTypeUrl() != resource.TypeURL {
		return fmt.Errorf("the response is of the type %q, not %s", response.GetTypeUrl(), resource.TypeURL)
	}
	files, err := resource.Policies(response.GetResources())
	if err != nil {
		return err
	}
	return c.o.Apply(files)
}

// reply acknowledges a response, or refuses it.
func (c *Client) reply(to *discoveryv3.DiscoveryResponse, err error) *discoveryv3.DiscoveryRequest {
	r := &discoveryv3.DiscoveryRequest{
		Node: c.node, TypeUrl: resource.TypeURL, VersionInfo: c.version, ResponseNonce: to.GetNonce(),
	}
	if err == nil {
		c.metrics.taken.Inc()
	} else {
		c.metrics.refused.Inc()
		r.ErrorDetail = &statuspb.Status{Code: int32(codes.InvalidArgument), Message: cut(err.Error())}
	}
	return r
}

// cut shortens the text of a refusal, and makes it one that a message of
// protobuf can hold.
func cut(text string) string {
	if len(text) > longestMessage {
		text = text[:longestMessage] + "…"
	}
	return strings.ToValidUTF8(text, "")
}
