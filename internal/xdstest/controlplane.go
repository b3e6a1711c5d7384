package xdstest

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
)

// Options say what a control plane is like.
type Options struct {
	// Address is where it listens, host:port or unix:path; empty: any free
	// port of 127.0.0.1.
	Address string

	// TLS is nil for plaintext.
	TLS *tls.Config

	// Node is the only node that it knows; empty: envoy-ratelimit, as Envoy
	// Gateway has it.
	Node string
}

// ControlPlane is a running control plane.
type ControlPlane struct {
	// Address is host:port or unix:path.
	Address string

	node   string
	cache  cache.SnapshotCache
	server *grpc.Server
	stop   context.CancelFunc

	mu       sync.Mutex
	requests []*discoveryv3.DiscoveryRequest
	headers  []metadata.MD
}

// Start starts a control plane that has nothing to say yet.
func Start(t testing.TB, o Options) *ControlPlane {
	t.Helper()
	network, address := "tcp", cmp.Or(o.Address, "127.0.0.1:0")
	path, isPath := strings.CutPrefix(address, "unix:")
	if isPath {
		network, address = "unix", path
	}
	listener, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	if !isPath {
		o.Address = listener.Addr().String()
	}
	ctx, stop := context.WithCancel(context.Background())
	p := &ControlPlane{
		Address: o.Address, node: cmp.Or(o.Node, "envoy-ratelimit"), stop: stop,
		cache: cache.NewSnapshotCache(false, cache.IDHash{}, nil),
	}
	var options []grpc.ServerOption
	if o.TLS != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(o.TLS)))
	}
	p.server = grpc.NewServer(options...)
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(p.server, server.NewServer(ctx, p.cache, server.CallbackFuncs{
		StreamOpenFunc:    p.opened,
		StreamRequestFunc: p.requested,
	}))
	go func() { _ = p.server.Serve(listener) }()
	t.Cleanup(p.Stop)
	return p
}

// Stop ends the control plane at once. It may be called again.
func (p *ControlPlane) Stop() {
	p.stop()
	p.server.Stop()
}

// Set gives the node these resources, in place of those before.
func (p *ControlPlane) Set(t testing.TB, version string, configs ...*ratelimitv3.RateLimitConfig) {
	t.Helper()
	resources := make([]types.Resource, len(configs))
	for i, config := range configs {
		resources[i] = config
	}
	snapshot, err := cache.NewSnapshot(version, map[resource.Type][]types.Resource{resource.RateLimitConfigType: resources})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cache.SetSnapshot(context.Background(), p.node, snapshot); err != nil {
		t.Fatal(err)
	}
}

func (p *ControlPlane) opened(ctx context.Context, _ int64, _ string) error {
	headers, _ := metadata.FromIncomingContext(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.headers = append(p.headers, headers)
	return nil
}

func (p *ControlPlane) requested(_ int64, r *discoveryv3.DiscoveryRequest) error {
	request, ok := proto.Clone(r).(*discoveryv3.DiscoveryRequest)
	if !ok {
		return fmt.Errorf("%T is no request", r)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests = append(p.requests, request)
	return nil
}

// Requests returns all requests so far, acknowledgements and refusals
// included.
func (p *ControlPlane) Requests() []*discoveryv3.DiscoveryRequest {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.requests)
}

// Headers returns those of each stream so far.
func (p *ControlPlane) Headers() []metadata.MD {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.headers)
}

// Acknowledged reports whether a version was acknowledged.
func (p *ControlPlane) Acknowledged(version string) bool {
	for _, r := range p.Requests() {
		if r.GetVersionInfo() == version && r.GetResponseNonce() != "" && r.GetErrorDetail() == nil {
			return true
		}
	}
	return false
}

// Refusal returns the message of the last refusal; empty: there was none.
func (p *ControlPlane) Refusal() string {
	for _, r := range slices.Backward(p.Requests()) {
		if detail := r.GetErrorDetail(); detail != nil {
			return detail.GetMessage()
		}
	}
	return ""
}
