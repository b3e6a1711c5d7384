package statsd

import (
	"cmp"
	_ "embed"
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/statsd_exporter/pkg/mapper"
	"go.yaml.in/yaml/v3"
)

// builtInMapping is the mapping that holds if no other is given.
//
//go:embed mapping.yaml
var builtInMapping string

// newMapper reads a mapping file of statsd_exporter; an empty one is the built-in
// mapping, by which times are seconds, or milliseconds.
func newMapper(text string, milliseconds bool) (*mapper.MetricMapper, error) {
	if text == "" {
		text = builtInMapping
		if milliseconds {
			text = strings.ReplaceAll(text, "    scale: 0.001\n", "")
		}
	}
	text, err := renamed(text)
	if err != nil {
		return nil, fmt.Errorf("mapping: %w", err)
	}
	m := new(mapper.MetricMapper)
	if err := m.InitFromYAMLString(text); err != nil {
		return nil, fmt.Errorf("mapping: %w", err)
	}
	return m, nil
}

// document is a mapping file, its fields as they are written.
type document struct {
	Defaults map[string]yaml.Node   `yaml:"defaults,omitempty"`
	Mappings []map[string]yaml.Node `yaml:"mappings"`
}

// renamed puts the fields of older files, such as the ones that Envoy Gateway
// writes, where they stand now.
func renamed(text string) (string, error) {
	var d document
	if err := yaml.Unmarshal([]byte(text), &d); err != nil {
		return "", err
	}
	defaults := typeOf(d.Defaults)
	if err := renew(d.Defaults, ""); err != nil {
		return "", err
	}
	for _, fields := range d.Mappings {
		if err := renew(fields, cmp.Or(typeOf(fields), defaults)); err != nil {
			return "", err
		}
	}
	written, err := yaml.Marshal(&d)
	return string(written), err
}

// typeOf is the kind of metric that times become, under its name of today.
func typeOf(fields map[string]yaml.Node) string {
	if value, found := fields["timer_type"]; found {
		delete(fields, "timer_type")
		addField(fields, "observer_type", value)
	}
	return fields["observer_type"].Value
}

// renew puts the options of one mapping, or of the defaults, where they stand now.
func renew(fields map[string]yaml.Node, observer string) error {
	if err := moved(fields, "buckets", "histogram_options", observer != string(mapper.ObserverTypeSummary)); err != nil {
		return err
	}
	return moved(fields, "quantiles", "summary_options", observer != string(mapper.ObserverTypeHistogram))
}

// moved puts a field into the one in which it stands now, or leaves it out where
// it means nothing, which was no mistake.
func moved(fields map[string]yaml.Node, name, within string, means bool) error {
	value, found := fields[name]
	if delete(fields, name); !found || !means {
		return nil
	}
	inner := make(map[string]yaml.Node)
	if options, found := fields[within]; found {
		if err := options.Decode(&inner); err != nil {
			return err
		}
	}
	addField(inner, name, value)
	var options yaml.Node
	err := options.Encode(inner)
	fields[within] = options
	return err
}

// addField adds a field that is not there.
func addField(fields map[string]yaml.Node, name string, value yaml.Node) {
	if _, found := fields[name]; !found {
		fields[name] = value
	}
}

// shown is a metric as Prometheus has it.
type shown struct {
	name    string
	help    string
	labels  prometheus.Labels
	scale   float64
	hidden  bool // the mapping drops it
	mapping *mapper.MetricMapping
}

// show maps a metric.
func show(m *mapper.MetricMapper, name string, kind mapper.MetricType) shown {
	mapping, labels, found := m.GetMapping(name, kind)
	if !found {
		return shown{name: mapper.EscapeMetricName(name), help: "Counted as " + name + ".", scale: 1}
	}
	s := shown{name: mapper.EscapeMetricName(mapping.Name), help: mapping.HelpText, labels: labels, scale: 1, hidden: mapping.Action == mapper.ActionTypeDrop, mapping: mapping}
	if s.help == "" {
		s.help = "Counted as envoyproxy/ratelimit counts it."
	}
	if mapping.Scale.Set {
		s.scale = mapping.Scale.Val
	}
	return s
}
