package xds

import (
	"fmt"
	"net"
	"strings"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/anypb"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"

	"github.com/ratelimitd/ratelimitd/pkg/xds/resource"
)

// script is a control plane that says what it is told to say, one response
// after each request.
type script struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer

	says  []*discoveryv3.DiscoveryResponse
	heard chan *discoveryv3.DiscoveryRequest // all but the first
}

func (s *script) StreamAggregatedResources(stream discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	if _, err := stream.Recv(); err != nil {
		return err
	}
	for _, response := range s.says {
		if err := stream.Send(response); err != nil {
			return err
		}
		request, err := stream.Recv()
		if err != nil {
			return err
		}
		s.heard <- request
	}
	<-stream.Context().Done()
	return nil
}

// Whatever a control plane sends is answered, and what is wrong is told, in a
// text of bounded length.
func TestStrangeResponses(t *testing.T) {
	many := &ratelimitv3.RateLimitConfig{Name: "many", Domain: "d"}
	for range 2000 {
		many.Descriptors = append(many.Descriptors, &ratelimitv3.RateLimitDescriptor{Key: strings.Repeat("é", 50)})
	}
	large, err := anypb.New(many)
	if err != nil {
		t.Fatal(err)
	}
	rows := []struct {
		response *discoveryv3.DiscoveryResponse
		want     string // how the refusal begins; empty: it is acknowledged
	}{
		{&discoveryv3.DiscoveryResponse{}, `the response is of the type "", not type.googleapis.com/`},
		{&discoveryv3.DiscoveryResponse{TypeUrl: "type.googleapis.com/envoy.config.cluster.v3.Cluster"}, "the response is of the type "},
		{&discoveryv3.DiscoveryResponse{TypeUrl: resource.TypeURL, Resources: []*anypb.Any{nil}}, `resource 0 is of the type ""`},
		{&discoveryv3.DiscoveryResponse{TypeUrl: resource.TypeURL, Resources: []*anypb.Any{{TypeUrl: resource.TypeURL, Value: []byte("\xff")}}}, "resource 0 is no RateLimitConfig"},
		{&discoveryv3.DiscoveryResponse{TypeUrl: resource.TypeURL, Resources: []*anypb.Any{{TypeUrl: resource.TypeURL}}}, "resource 0: domain: the domain must not be empty"},
		{&discoveryv3.DiscoveryResponse{TypeUrl: resource.TypeURL, Resources: []*anypb.Any{large}}, `many: descriptors[1]: a descriptor with key "é`},
		{&discoveryv3.DiscoveryResponse{TypeUrl: resource.TypeURL}, ""},
	}
	server := &script{heard: make(chan *discoveryv3.DiscoveryRequest, len(rows))}
	for i, row := range rows {
		row.response.VersionInfo, row.response.Nonce = fmt.Sprint("v", i), fmt.Sprint("n", i)
		server.says = append(server.says, row.response)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer()
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(g, server)
	go func() { _ = g.Serve(listener) }()
	t.Cleanup(g.Stop)

	receive(t, listener.Addr().String())
	for i, row := range rows {
		request := <-server.heard
		if request.GetResponseNonce() != row.response.GetNonce() || request.GetTypeUrl() != resource.TypeURL {
			t.Errorf("response %d: answered %v", i, request)
		}
		text := request.GetErrorDetail().GetMessage()
		if !strings.HasPrefix(text, row.want) || (text == "") != (row.want == "") || len(text) > longestMessage+len("…") {
			t.Errorf("response %d: refused with %d bytes, %.200q, want %q", i, len(text), text, row.want)
		}
	}
}
