package service

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"
)

// The histogram shows what prometheus' own would, had it got the durations one
// by one.
func TestHistogram(t *testing.T) {
	bounds := make([]float64, len(durationBounds))
	for i := range bounds {
		bounds[i] = durationBounds[i].Seconds()
	}
	random := rand.New(rand.NewPCG(3, 4))
	want := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "d", Help: "Durations.", Buckets: bounds})
	var h histogram
	for range 1000 {
		d := durationBounds[random.IntN(len(bounds))]*2 - time.Duration(random.IntN(3)) // some on a bound, some beyond all
		if random.IntN(2) == 0 {
			d /= 2
		}
		n := random.IntN(4)
		h.observe(d, n)
		for range n {
			want.Observe(d.Seconds())
		}
	}
	out := make(chan prometheus.Metric, 1)
	h.collect(out, want.Desc())
	read := func(m prometheus.Metric) *dto.Histogram {
		var written dto.Metric
		if err := m.Write(&written); err != nil {
			t.Fatal(err)
		}
		written.Histogram.CreatedTimestamp = nil
		return written.Histogram
	}
	got, wanted := read(<-out), read(want)
	if difference := got.GetSampleSum() - wanted.GetSampleSum(); difference > 1e-6 || difference < -1e-6 {
		t.Errorf("sum %v, want %v", got.GetSampleSum(), wanted.GetSampleSum())
	}
	wanted.SampleSum = got.SampleSum
	if !proto.Equal(got, wanted) {
		t.Errorf("got  %v\nwant %v", got, wanted)
	}
}

// Each request of a batch is counted by its own outcome.
func TestDurationsOfABatch(t *testing.T) {
	s := start(t, DefaultOptions(), "domain: t\ndescriptors:\n  - {key: k, rate_limit: {unit: hour, requests_per_unit: 2}}\n")
	wire := encode(&anyRequest{Domain: []byte("t"), Descriptors: []anyDescriptor{{Entries: entries("k", "v")}}})
	s.Answer(t.Context(), []Exchange{{Request: wire}, {Request: wire}, {Request: wire}, {Request: []byte{0x0a}}, {TooLarge: true}})
	got := map[string]uint64{}
	for _, m := range s.families(t)["ratelimitd_request_duration_seconds"].GetMetric() {
		got[m.Label[0].GetValue()] = m.Histogram.GetSampleCount()
	}
	if got["ok"] != 2 || got["over_limit"] != 2 || got["error"] != 1 {
		t.Errorf("got %v", got)
	}
	if got := s.decisions(t); got["t/k within_limit"] != 1 || got["t/k near_limit"] != 1 || got["t/k over_limit"] != 1 {
		t.Errorf("got %v", got)
	}
}
