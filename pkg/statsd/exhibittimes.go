package statsd

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/statsd_exporter/pkg/mapper"
)

// shownTimes are times that are shown together: of one method, or of several to
// which the mapping gives one name and the same labels.
type shownTimes struct {
	shown
	all []*times
}

// showTimes maps how long calls took, and has them be counted in buckets where
// that is how they are shown.
func (e *Exhibit) showTimes(all []*calls) []*shownTimes {
	var list []*shownTimes
	known := make(map[string]*shownTimes)
	for _, c := range all {
		s := show(e.mapper, c.timesName, mapper.MetricTypeObserver)
		id := s.id()
		if known[id] == nil {
			known[id] = &shownTimes{shown: s}
			list = append(list, known[id])
		}
		known[id].all = append(known[id].all, &c.times)
		if bounds := e.bounds(&known[id].shown); bounds != nil {
			c.times.divide(bounds)
		}
	}
	return list
}

// bounds are the buckets of times, if they are shown in buckets.
func (e *Exhibit) bounds(times *shown) []float64 {
	m := times.mapping
	observer, bounds := e.mapper.Defaults.ObserverType, e.mapper.Defaults.HistogramOptions.Buckets
	if m != nil && m.ObserverType != mapper.ObserverTypeDefault {
		observer = m.ObserverType
	}
	if m != nil && m.HistogramOptions != nil && len(m.HistogramOptions.Buckets) > 0 {
		bounds = m.HistogramOptions.Buckets
	}
	if observer != mapper.ObserverTypeHistogram {
		return nil
	}
	scaled := make([]float64, len(bounds))
	for i, bound := range bounds {
		scaled[i] = bound / times.scale // milliseconds
	}
	return scaled
}

// collectTimes tells how long calls took, if there were any.
func (e *Exhibit) collectTimes(out chan<- prometheus.Metric, s *shownTimes) {
	var count uint64
	var sum float64
	var buckets map[float64]uint64
	for _, t := range s.all {
		n, took, parts := t.divided(s.scale)
		count, sum = count+n, sum+took
		if buckets == nil {
			buckets = parts
			continue
		}
		for bound, n := range parts {
			buckets[bound] += n
		}
	}
	if s.hidden || count == 0 {
		return
	}
	d := e.describe(&s.shown)
	var m prometheus.Metric
	var err error
	if buckets != nil {
		m, err = prometheus.NewConstHistogram(d, count, sum, buckets)
	} else {
		m, err = prometheus.NewConstSummary(d, count, sum, e.quantiles(s))
	}
	if err == nil {
		out <- m
	}
}

// quantiles are those of the calls since the last time.
func (e *Exhibit) quantiles(s *shownTimes) map[float64]float64 {
	var sample []time.Duration
	for _, t := range s.all {
		some, _ := t.take()
		sample = append(sample, some...)
	}
	slices.Sort(sample)
	wanted := e.mapper.Defaults.SummaryOptions.Quantiles
	if m := s.mapping; m != nil && m.SummaryOptions != nil && len(m.SummaryOptions.Quantiles) > 0 {
		wanted = m.SummaryOptions.Quantiles
	}
	quantiles := make(map[float64]float64)
	for _, q := range wanted {
		if len(sample) > 0 && q.Quantile >= 0 && q.Quantile <= 1 { // else it is none
			at := min(len(sample)-1, int(q.Quantile*float64(len(sample))))
			quantiles[q.Quantile] = float64(sample[at]) / float64(time.Millisecond) * s.scale
		}
	}
	return quantiles
}
