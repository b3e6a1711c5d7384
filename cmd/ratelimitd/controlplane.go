package main

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ratelimitd/ratelimitd/pkg/reload"
	"github.com/ratelimitd/ratelimitd/pkg/settings"
	"github.com/ratelimitd/ratelimitd/pkg/xds"
)

// controlPlane is where policies come from besides files.
type controlPlane struct {
	run func(context.Context) // until ctx is done
	err func() error          // why it is away; nil: it is there, or none is wanted
}

// openControlPlane prepares to ask the control plane of the settings. It does
// not fail for one that does not answer yet.
func (m *Main) openControlPlane(policies *reload.Loader, registry prometheus.Registerer) (*controlPlane, error) {
	if m.Settings.XDSServer == "" {
		return &controlPlane{run: func(context.Context) {}, err: func() error { return nil }}, nil
	}
	client, err := xds.New(m.xdsOptions(policies, registry))
	if err != nil {
		return nil, err
	}
	return &controlPlane{run: client.Run, err: client.Err}, nil
}

func (m *Main) xdsOptions(policies *reload.Loader, registry prometheus.Registerer) xds.Options {
	s := m.Settings
	metadata, _ := settings.ParsePairs(s.XDSNodeMetadata) // both checked by package settings
	headers, _ := settings.ParsePairs(s.XDSHeaders.Reveal())
	o := xds.Options{
		Server:       s.XDSServer,
		NodeID:       s.XDSNodeID,
		NodeMetadata: metadata,
		Headers:      headers,
		MaxMessage:   int(s.XDSMaxMessage),
		Backoff:      xds.Backoff{Initial: s.XDSRetry, Max: s.XDSRetryMax},
		Apply:        policies.Offer,
		Version:      version(),
		Log:          m.log,
		Registerer:   registry,
	}
	if s.XDSTLS {
		o.TLS = &xds.TLS{
			Files:      filesOf(s, "xds_tls_", "ca_file", s.XDSTLSCAFile, s.XDSTLSCertFile, s.XDSTLSKeyFile),
			ServerName: s.XDSTLSServerName,
		}
	}
	return o
}
