package statsd

import (
	_ "embed"
	"fmt"
	"slices"
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

// older are fields that mapping files had under another name, which the ones that
// Envoy Gateway writes still have.
var older = map[string]string{"timer_type": "observer_type"}

// renamed gives the fields of older files the names that they have now.
func renamed(text string) (string, error) {
	var document struct {
		Defaults map[string]yaml.Node   `yaml:"defaults,omitempty"`
		Mappings []map[string]yaml.Node `yaml:"mappings"`
	}
	if err := yaml.Unmarshal([]byte(text), &document); err != nil {
		return "", err
	}
	for _, fields := range append(slices.Clip(document.Mappings), document.Defaults) {
		for old, name := range older {
			if value, found := fields[old]; found {
				delete(fields, old)
				if _, both := fields[name]; !both {
					fields[name] = value
				}
			}
		}
	}
	written, err := yaml.Marshal(&document)
	return string(written), err
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
