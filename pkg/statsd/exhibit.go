package statsd

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/statsd_exporter/pkg/mapper"
)

// ExhibitOptions say how a tally is shown to Prometheus.
type ExhibitOptions struct {
	// Mapping is the text of a mapping file of statsd_exporter, which says what
	// metrics are called and which parts of their names are labels. Empty is
	// that of envoyproxy/ratelimit.
	Mapping string

	// Milliseconds shows times so by that mapping, else in seconds.
	Milliseconds bool

	// Tags are labels of all metrics. What of a name cannot stand in a label's
	// is _, and one that has a meaning of its own begins with _.
	Tags map[string]string

	Sources []Source
}

// mostKnown is how many metrics it is kept of how they are shown, which takes
// about a kilobyte each; for others it is worked out each time.
const mostKnown = 2000

// Exhibit shows a tally to Prometheus. It is a [prometheus.Collector], and safe
// for concurrent use.
type Exhibit struct {
	tally   *Tally
	mapper  *mapper.MetricMapper
	tags    prometheus.Labels
	sources []Source
	times   []*shownTimes

	mu    sync.Mutex // one scrape at a time
	known map[string]shown
}

// NewExhibit returns what shows the tally, of which it is the only sink. The error
// is about the mapping.
func NewExhibit(t *Tally, o ExhibitOptions) (*Exhibit, error) {
	m, err := newMapper(o.Mapping, o.Milliseconds)
	if err != nil {
		return nil, err
	}
	e := &Exhibit{tally: t, mapper: m, tags: make(prometheus.Labels), sources: o.Sources}
	for _, name := range namesOf(o.Tags) {
		e.tags[labelName(name)] = strings.ToValidUTF8(o.Tags[name], "_")
	}
	e.times = e.showTimes(t.calls)
	return e, nil
}

// labelName makes the name of a tag that of a label. Those that begin with two
// underscores are Prometheus' own, and two others are of histograms and summaries.
func labelName(tag string) string {
	name := mapper.EscapeMetricName(tag)
	if name == "le" || name == "quantile" || strings.HasPrefix(name, "__") {
		return "_" + strings.TrimLeft(name, "_")
	}
	return name
}

// Describe implements [prometheus.Collector]: what there is is known only when
// it is collected.
func (e *Exhibit) Describe(chan<- *prometheus.Desc) {}

// series is a line of what Prometheus reads.
type series struct {
	shown shown
	kind  prometheus.ValueType
	value float64
}

// Collect implements [prometheus.Collector]. Counters that the mapping gives one
// name and the same labels are added up.
func (e *Exhibit) Collect(out chan<- prometheus.Metric) {
	e.mu.Lock()
	defer e.mu.Unlock()
	known := e.known
	e.known = make(map[string]shown, len(known))
	all := make(map[string]*series)
	add := func(m Metric, kind prometheus.ValueType, as mapper.MetricType) {
		s, found := known[m.Name]
		if !found {
			s = show(e.mapper, m.Name, as)
			s.mapping = nil
		}
		if len(e.known) < mostKnown {
			e.known[m.Name] = s
		}
		value := m.Value
		if len(m.Tags) > 0 {
			s.labels = merged(s.labels, m.Tags)
		}
		id := s.id()
		switch {
		case s.hidden:
		case all[id] == nil:
			all[id] = &series{s, kind, value * s.scale}
		case kind == prometheus.CounterValue:
			all[id].value += value * s.scale
		}
	}
	e.tally.each(true, func(c counter) {
		add(Metric{Name: c.name, Value: float64(c.total)}, prometheus.CounterValue, mapper.MetricTypeCounter)
		*c.sent = c.total
	})
	for _, source := range e.sources {
		source(func(m Metric) {
			if m.Gauge {
				add(m, prometheus.GaugeValue, mapper.MetricTypeGauge)
			} else {
				add(m, prometheus.CounterValue, mapper.MetricTypeCounter)
			}
		})
	}
	kinds := make(map[string]prometheus.ValueType)
	for _, id := range slices.Sorted(maps.Keys(all)) {
		s := all[id]
		if kind, other := kinds[s.shown.name]; other && kind != s.kind {
			continue // a mapping gave a counter and a gauge one name
		}
		kinds[s.shown.name] = s.kind
		if m, err := prometheus.NewConstMetric(e.describe(&s.shown), s.kind, s.value); err == nil {
			out <- m
		}
	}
	for _, t := range e.times {
		e.collectTimes(out, t)
	}
	e.tally.forget()
}

// id tells series apart.
func (s *shown) id() string {
	var b strings.Builder
	b.WriteString(s.name)
	for _, label := range slices.Sorted(maps.Keys(s.labels)) {
		b.WriteString("\x00" + label + "\x00" + s.labels[label])
	}
	return b.String()
}

func (e *Exhibit) describe(s *shown) *prometheus.Desc {
	labels := s.labels
	if len(e.tags) > 0 {
		labels = maps.Clone(e.tags)
		maps.Copy(labels, s.labels)
	}
	return prometheus.NewDesc(s.name, s.help, nil, labels)
}
