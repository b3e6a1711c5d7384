package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ratelimitd/ratelimitd/internal/certificates"
	"github.com/ratelimitd/ratelimitd/internal/redistest"
	"github.com/ratelimitd/ratelimitd/pkg/backend"
	"github.com/ratelimitd/ratelimitd/pkg/statsd"
)

// told is what a source tells, as one text.
func told(source statsd.Source) string {
	all := make(map[string]string)
	source(func(m statsd.Metric) {
		kind := "c"
		if m.Gauge {
			kind = "g"
		}
		all[m.Name] = fmt.Sprintf("%s:%v|%s", m.Name, m.Value, kind)
	})
	return strings.Join(slices.Sorted(maps.Values(all)), " ")
}

func TestSources(t *testing.T) {
	c := redistest.NewCertificates(t, t.TempDir())
	served := certificates.NewSource(certificates.Files{Cert: c.ServerCert, Key: c.ServerKey}, slog.New(slog.DiscardHandler))
	if _, err := served.Current(); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		source statsd.Source
		want   string
	}{
		{poolSource("pool", func() backend.Connections { return backend.Connections{Opened: 5, Closed: 2} }), "pool.cx_active:3|g pool.cx_local_close:2|c pool.cx_total:5|c"},
		{certificatesSource(served), "certs.load_attempts:1|c certs.load_failures:0|c certs.num_values:2|g"},
		{certificatesSource(nil), ""},
		{reservedSource(map[string]string{"host": "a", "region": "b", "zone": "c"}), "reserved_tag:2|c"},
		{reservedSource(map[string]string{"zone": "c"}), ""},
	} {
		if got := told(row.source); got != row.want {
			t.Errorf("%q, want %q", got, row.want)
		}
	}
}

// Datadog's own variables are tags, but for those that EXTRA_TAGS has.
func TestDatadogTags(t *testing.T) {
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	_, port, _ := net.SplitHostPort(server.LocalAddr().String())
	stats, err := compatWith(t, "USE_STATSD=false", "USE_DOG_STATSD=true", "STATSD_HOST=127.0.0.1", "STATSD_PORT="+port, "EXTRA_TAGS=app:r.l,env:test",
		"DD_ENV=prod", "DD_VERSION=1.2", "DD_SERVICE=", "DD_ENTITY_ID=uid").openStats(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // it sends once more
	stats.run(ctx)
	packet := make([]byte, 1<<16)
	_ = server.SetReadDeadline(time.Now().Add(10 * time.Second))
	n, _, err := server.ReadFrom(packet)
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := bytes.Cut(packet[:n], []byte("\n"))
	if want := "|#app:r_l,dd.internal.entity_id:uid,env:test,version:1.2"; !strings.HasSuffix(string(line), want) {
		t.Errorf("%s, want tags %s", line, want)
	}
}
