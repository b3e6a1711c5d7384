package statsd

import (
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Translation gives a metric of Prometheus another name, and tags. Those with all
// of the labels are added up.
type Translation struct {
	Family string
	Labels map[string]string
	Name   string
	Tags   map[string]string
}

// Gathered is a [Source] of counters and gauges that a registry has. What cannot
// be gathered is left out.
func Gathered(from prometheus.Gatherer, all []Translation) Source {
	return func(tell func(Metric)) {
		families, _ := from.Gather() // what there is beside an error
		for _, family := range families {
			for _, t := range all {
				if m, ok := t.of(family); ok {
					tell(m)
				}
			}
		}
	}
}

// of translates a family, if it is the one.
func (t *Translation) of(family *dto.MetricFamily) (Metric, bool) {
	m := Metric{Name: t.Name, Tags: t.Tags, Gauge: family.GetType() == dto.MetricType_GAUGE}
	found := false
	for _, one := range family.GetMetric() {
		if family.GetName() == t.Family && t.matches(one) {
			found = true
			m.Value += one.GetCounter().GetValue() + one.GetGauge().GetValue()
		}
	}
	return m, found
}

func (t *Translation) matches(m *dto.Metric) bool {
	met := 0
	for _, pair := range m.GetLabel() {
		if value, wanted := t.Labels[pair.GetName()]; wanted && value == pair.GetValue() {
			met++
		}
	}
	return met == len(t.Labels)
}
