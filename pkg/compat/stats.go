package compat

import "time"

// Stats are the variables about metrics, as they are.
type Stats struct {
	Disabled        bool
	Statsd          bool
	DogStatsd       bool
	Mogrifiers      []string          // names
	MogrifierRules  map[string]string // variable without the prefix → value
	Host            string
	Port            int
	Protocol        string
	ExtraTags       map[string]string
	Datadog         Datadog
	FlushInterval   time.Duration
	Prometheus      bool
	PrometheusAddr  string
	PrometheusPath  string
	PrometheusRules string // a mapping file of statsd_exporter; empty: the built-in one
	Milliseconds    bool   // response times of the built-in mapping
	NearLimitRatio  float64
}

// Datadog are tags of every metric for dogstatsd. Empty ones are not sent.
type Datadog struct{ Entity, Env, Service, Version string }

// Tags returns them by the names that they have there.
func (d *Datadog) Tags() map[string]string {
	return map[string]string{"dd.internal.entity_id": d.Entity, "env": d.Env, "service": d.Service, "version": d.Version}
}

// mogrifierPrefix begins the variables of mogrifiers.
const mogrifierPrefix = "DOG_STATSD_MOGRIFIER_"

// rows are those of metrics. Long because they are a table.
func (s *Stats) rows() []Row {
	return []Row{
		{Name: "DISABLE_STATS", Default: "false", target: &s.Disabled, Doc: "Send no metrics, whatever else is set."},
		{Name: "USE_STATSD", Default: "true", target: &s.Statsd, Doc: "Send metrics to statsd. It must be false for another way.", Fate: Better, How: "when it is false and there is no other way, nothing is written on standard error; what cannot be sent is kept, and response times are a sample of 100 for each interval"},
		{Name: "USE_DOG_STATSD", Default: "false", target: &s.DogStatsd, Doc: "Send metrics to dogstatsd, over UDP."},
		{Name: "USE_DOG_STATSD_MOGRIFIERS", target: &s.Mogrifiers, Doc: "The names of mogrifiers, which rename metrics: `DOG_STATSD_MOGRIFIER_<NAME>_PATTERN`, `_NAME` and `_TAGS` say how."},
		{Name: "STATSD_HOST", Default: "localhost", target: &s.Host, Doc: "Where statsd or dogstatsd is."},
		{Name: "STATSD_PORT", Default: "8125", target: &s.Port, Doc: "Its port."},
		{Name: "STATSD_PROTOCOL", Default: "tcp", target: &s.Protocol, Doc: "tcp or udp, for statsd."},
		{Name: "EXTRA_TAGS", target: &s.ExtraTags, Doc: "Tags of every metric, as `k:v,k2:v2`."},
		{
			Name: "DD_ENTITY_ID", target: &s.Datadog.Entity, Doc: "With dogstatsd, by which entity Datadog's agent tags metrics: the UID of the pod.",
			Fate: Better, How: "where it is not set there is no look for a container's ID in its place",
		},
		{Name: "DD_ENV", target: &s.Datadog.Env, Doc: "With dogstatsd, the tag `env` of every metric."},
		{Name: "DD_SERVICE", target: &s.Datadog.Service, Doc: "With dogstatsd, the tag `service`."},
		{Name: "DD_VERSION", target: &s.Datadog.Version, Doc: "With dogstatsd, the tag `version`."},
		{Name: "STATS_FLUSH_INTERVAL", Default: "10s", target: &s.FlushInterval, Doc: "How often metrics are sent."},
		{Name: "USE_PROMETHEUS", Default: "false", target: &s.Prometheus, Doc: "Show metrics to Prometheus, on a port of their own."},
		{Name: "PROMETHEUS_ADDR", Default: ":9090", target: &s.PrometheusAddr, Doc: "Where."},
		{Name: "PROMETHEUS_PATH", Default: "/metrics", target: &s.PrometheusPath, Doc: "On which page."},
		{
			Name: "PROMETHEUS_MAPPER_YAML", target: &s.PrometheusRules, Doc: "A mapping file of statsd_exporter, in place of the built-in one.",
			Fate: Better, How: "for a file that is not there the built-in one holds; one with a mistake stops the start",
		},
		{Name: "PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS", Default: "false", target: &s.Milliseconds, Doc: "Response times in milliseconds, not seconds, by the built-in mapping."},
		{Name: "NEAR_LIMIT_RATIO", Default: "0.8", target: &s.NearLimitRatio, Doc: "From which part of a limit on hits count as near_limit.", Fate: Refused, How: "below 0 and above 1 it is refused"},
	}
}

// check finds metrics that would go nowhere, or to two places.
func (s *Stats) check(f *faults) {
	if !s.Disabled && (s.Statsd && (s.DogStatsd || s.Prometheus) || s.DogStatsd && s.Prometheus) {
		f.add("USE_STATSD, USE_DOG_STATSD, USE_PROMETHEUS", "are more than one way for metrics; set one of them to true and USE_STATSD, which is true by itself, to false where it is another")
	}
	if s.Protocol != "tcp" && s.Protocol != "udp" {
		f.add("STATSD_PROTOCOL", "%q is not one of tcp, udp", s.Protocol)
	}
	if s.Port < 1 || s.Port > 65535 {
		f.add("STATSD_PORT", "%d is no port; from 1 to 65535", s.Port)
	}
	if s.FlushInterval <= 0 {
		f.add("STATS_FLUSH_INTERVAL", "%v is no interval; write more than 0s", s.FlushInterval)
	}
}
