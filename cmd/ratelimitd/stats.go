package main

import (
	"cmp"
	"context"
	"errors"
	"net"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ratelimitd/ratelimitd/pkg/compat"
	"github.com/ratelimitd/ratelimitd/pkg/descriptors"
	"github.com/ratelimitd/ratelimitd/pkg/service"
	"github.com/ratelimitd/ratelimitd/pkg/settings"
	"github.com/ratelimitd/ratelimitd/pkg/statsd"
)

// stats are the metrics under the names of envoyproxy/ratelimit's. The zero
// value has none.
type stats struct {
	tally  *statsd.Tally  // nil: nobody wants them
	sender *statsd.Sender // nil: they are not sent

	// others are metrics that have another name there.
	others *prometheus.Registry
}

// translations are the names of others.
var translations = []statsd.Translation{
	{Family: "ratelimitd_config_loads_total", Label: "result", Value: "loaded", Name: "ratelimit.service.config_load_success"},
	{Family: "ratelimitd_config_loads_total", Label: "result", Value: "refused", Name: "ratelimit.service.config_load_error"},
}

// statsOptions say what is counted and where it goes.
type statsOptions struct {
	tally  statsd.Options
	sender statsd.SenderOptions // Address empty: they are not sent
}

// openStats begins to count, if the settings say so.
func (m *Main) openStats() stats {
	o := nativeStats(m.Settings)
	if m.Compat != nil {
		o = compatStats(&m.Compat.Stats)
	}
	if o.sender.Address == "" {
		return stats{}
	}
	o.sender.Log = m.log
	others := prometheus.NewRegistry()
	o.sender.Sources = []statsd.Source{statsd.Process, statsd.Gathered(others, translations)}
	tally := statsd.NewTally(o.tally)
	return stats{tally: tally, sender: statsd.NewSender(tally, o.sender), others: others}
}

// nativeStats are those of ratelimitd's own settings.
func nativeStats(s *settings.Settings) statsOptions {
	tags, _ := settings.ParsePairs(s.StatsdTags) // checked by package settings
	return statsOptions{
		tally: statsd.Options{MaxNames: s.StatsdMaxNames},
		sender: statsd.SenderOptions{
			Network:  s.StatsdNetwork,
			Address:  s.StatsdAddress,
			Interval: s.StatsdInterval,
			Tags:     tags,
			Dog:      s.StatsdDialect == settings.DialectDogstatsd,
		},
	}
}

// compatStats are those of envoyproxy/ratelimit's environment.
func compatStats(s *compat.Stats) statsOptions {
	o := statsOptions{
		tally: statsd.Options{NearLimitRatio: s.NearLimitRatio},
		sender: statsd.SenderOptions{
			Network:  cmp.Or(s.Protocol, statsd.TCP),
			Interval: s.FlushInterval,
			Tags:     s.ExtraTags,
			Dog:      s.DogStatsd,
		},
	}
	if s.DogStatsd {
		o.sender.Network = statsd.UDP
	}
	if (s.Statsd || s.DogStatsd) && !s.Disabled {
		o.sender.Address = net.JoinHostPort(s.Host, strconv.Itoa(s.Port))
	}
	return o
}

// beside returns what registers metrics with the registry, and so that they can
// be told under another name.
func (s *stats) beside(registry prometheus.Registerer) prometheus.Registerer {
	if s.others == nil {
		return registry
	}
	return both{registry, s.others}
}

// both registers with two registries.
type both struct{ first, second prometheus.Registerer }

// Register implements [prometheus.Registerer].
func (b both) Register(c prometheus.Collector) error {
	return errors.Join(b.first.Register(c), b.second.Register(c))
}

// MustRegister implements [prometheus.Registerer].
func (b both) MustRegister(all ...prometheus.Collector) {
	b.first.MustRegister(all...)
	b.second.MustRegister(all...)
}

// Unregister implements [prometheus.Registerer].
func (b both) Unregister(c prometheus.Collector) bool {
	return b.second.Unregister(c) && b.first.Unregister(c)
}

// run sends until ctx is done.
func (s *stats) run(ctx context.Context) {
	if s.sender != nil {
		s.sender.Run(ctx)
	}
}

// meter is for package service.
func (s *stats) meter() service.Meter {
	if s.tally == nil {
		return nil
	}
	return meter{s.tally}
}

// meter joins packages service and statsd, which do not know each other.
type meter struct{ *statsd.Tally }

// Sheet implements [service.Meter].
func (m meter) Sheet(rules *descriptors.Rules) service.Sheet { return m.Tally.Sheet(rules) }
