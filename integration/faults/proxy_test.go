package faults

import (
	"context"
	"strings"
	"testing"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// proxy is the network between ratelimitd and Redis, which can be slow, silent or cut.
type proxy struct{ *toxiproxy.Proxy }

// startProxy leads to an address.
func startProxy(t *testing.T, to string) *proxy {
	t.Helper()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop())
	p := &proxy{toxiproxy.NewProxy(server, "redis", "127.0.0.1:0", to)}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	return p
}

// URL returns the address as ratelimitd's settings take it.
func (p *proxy) URL() string { return "redis://" + p.Listen }

// spoil makes the network worse, by toxics of toxiproxy in JSON.
func (p *proxy) spoil(t *testing.T, toxics ...string) {
	t.Helper()
	for _, toxic := range toxics {
		if _, err := p.Toxics.AddToxicJson(strings.NewReader(toxic)); err != nil {
			t.Fatalf("%s: %v", toxic, err)
		}
	}
}

// mend makes the network good again.
func (p *proxy) mend() { p.Toxics.ResetToxics(context.Background()) }

// lead leads to another address. All connections are cut.
func (p *proxy) lead(t *testing.T, to string) {
	t.Helper()
	if err := p.Update(&toxiproxy.Proxy{Listen: p.Listen, Upstream: to, Enabled: true}); err != nil {
		t.Fatal(err)
	}
}

// reconnect ends a cut.
func (p *proxy) reconnect(t *testing.T) {
	t.Helper()
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
}
