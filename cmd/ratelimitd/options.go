package main

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ratelimitd/ratelimitd/config"
	"github.com/ratelimitd/ratelimitd/pkg/descriptors"
	"github.com/ratelimitd/ratelimitd/pkg/reload"
	"github.com/ratelimitd/ratelimitd/pkg/service"
	"github.com/ratelimitd/ratelimitd/pkg/settings"
	"github.com/ratelimitd/ratelimitd/pkg/web"
)

func (m *Main) serviceOptions(meter service.Meter) service.Options {
	s := m.Settings
	o := service.Options{
		Headers: service.Headers{
			RateLimit:       s.RateLimitHeaders,
			RateLimitPolicy: s.RateLimitHeaders,
			RetryAfter:      s.RetryAfterHeader,
			Triple:          s.RateLimitLegacyHeaders,
			XTriple:         s.XRateLimitHeaders,
			Delay:           s.DelayHeader,
			Degraded:        s.DegradedHeader,
		},
		Body:            s.Body,
		Metadata:        s.DynamicMetadata,
		Budget:          budget(s),
		MaxDescriptors:  s.MaxDescriptors,
		MaxRequestBytes: int(s.GRPCMaxMessage),
		Meter:           meter,
		Logger:          m.log,
	}
	if m.Compat != nil {
		o = compatService(m.Compat, o)
	}
	return o
}

// perSecond are the settings about the Redis of limits per second; nil: it is that
// of all limits.
func (m *Main) perSecond() *settings.Settings {
	switch {
	case m.Compat != nil:
		return m.Compat.PerSecond
	case m.Settings.RedisPerSecondURL == "":
		return nil
	}
	s := *m.Settings
	s.RedisURL = s.RedisPerSecondURL
	s.RedisUsername, s.RedisPassword, s.RedisPasswordFile = "", "", ""
	s.RedisSentinelUsername, s.RedisSentinelPassword, s.RedisSentinelPasswordFile = "", "", ""
	return &s
}

// budget is how long a request may wait for its decision. In memory nothing
// waits, and an answer by policy would be no sooner than a decision.
func budget(s *settings.Settings) time.Duration {
	if s.Store == settings.StoreMemory {
		return 0
	}
	return s.StoreTimeout
}

func (m *Main) reloadOptions(apply func(*descriptors.Rules), registry prometheus.Registerer) reload.Options {
	samples := config.Policies()
	if m.Settings.XDSServer != "" {
		samples = nil // the control plane says what there is
	}
	o := reload.Options{
		Dir:        m.Settings.Policies,
		Files:      samples,
		Compile:    m.compileOptions(),
		MaxSize:    int64(m.Settings.PoliciesMaxSize),
		Apply:      apply,
		Log:        m.log,
		Registerer: registry,
	}
	if m.Compat != nil {
		o = compatReload(m.Compat, o)
	}
	return o
}

// compileOptions are what policies do not say themselves.
func (m *Main) compileOptions() descriptors.Options {
	counting, _ := countingOf(m.Settings.Counting) // checked by package settings
	o := descriptors.Options{Counting: counting, Region: string(m.Settings.Region)}
	if m.Settings.HashValues {
		o.Hiding = descriptors.NewHiding([]byte(m.Settings.HashValuesKey.Reveal()))
		m.log.Info("values are hashed", "key_fingerprint", o.Hiding.Fingerprint())
	}
	if m.Compat != nil {
		o = compatCompile(m.Compat, o)
	}
	return o
}

func (m *Main) publicOptions(rateLimit *service.Service, ready *readiness, metrics prometheus.Gatherer) web.Options {
	return web.Options{
		Ask:     asker(rateLimit),
		Health:  ready.health,
		Metrics: metrics,
		MaxBody: int64(m.Settings.HTTPMaxBody),
	}
}

func (m *Main) adminOptions(policies *reload.Loader, ready *readiness, metrics prometheus.Gatherer) web.AdminOptions {
	o := web.AdminOptions{
		Version: version(),
		Health:  ready.health,
		Policies: func() web.Policies {
			s := policies.Status()
			return web.Policies{Rules: s.Rules, Since: s.Since, Err: s.Err, Failed: s.Failed}
		},
		Metrics:  metrics,
		Token:    m.Settings.AdminToken.Reveal(),
		Secured:  m.Settings.AdminTLSClientCAFile != "",
		Settings: m.adminSettings(),
		LogLevel: &m.level,
		Log:      m.log,
	}
	if m.Compat != nil {
		o = compatAdmin(m.Compat, o)
	}
	return o
}
