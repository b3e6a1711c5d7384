package statsd

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"time"
)

// The words of [SenderOptions].Network.
const (
	UDP = "udp"
	TCP = "tcp"
)

const (
	// DefaultInterval holds where [SenderOptions] say 0.
	DefaultInterval = 10 * time.Second

	// patience is how long a server may take to be reached, and to take what
	// it is sent.
	patience = 3 * time.Second

	// datagram is how many bytes go through any network in one piece. Over TCP
	// as many as segment are written at once.
	datagram = 1432
	segment  = 32 << 10
)

// Source tells metrics that somebody else keeps.
type Source func(tell func(Metric))

// Metric is a value of a [Source].
type Metric struct {
	Name  string
	Value float64
	Gauge bool // else it is a counter, and Value all that it counted

	// Tags are its own, besides those of all metrics.
	Tags map[string]string

	// Bare is without the tags of all metrics where they would be part of its
	// name, or of its line.
	Bare bool
}

// SenderOptions say what a [Sender] sends, and where to.
type SenderOptions struct {
	// Network is [UDP] or [TCP], and Address host:port.
	Network, Address string

	// Interval is how often it sends; 0 means [DefaultInterval].
	Interval time.Duration

	// Tags of all metrics: part of their names, or, if Dog, tags as dogstatsd
	// has them.
	Tags map[string]string
	Dog  bool

	// Mogrifiers rename metrics, if Dog: the first that matches does.
	Mogrifiers []Mogrifier

	Sources []Source

	// Log is told when the server cannot be reached, and when it can be again;
	// nil means [slog.Default].
	Log *slog.Logger
}

// Sender sends a tally to a statsd server. What cannot be sent stays counted and
// is sent later.
type Sender struct {
	tally   *Tally
	options SenderOptions
	usual   tagging
	told    map[string]float64 // counters of sources
	conn    net.Conn           // nil: there is none
	failing bool
}

// NewSender returns a sender that has sent nothing.
func NewSender(t *Tally, o SenderOptions) *Sender {
	o.Interval = cmp.Or(max(o.Interval, 0), DefaultInterval)
	o.Log = cmp.Or(o.Log, slog.Default())
	s := &Sender{tally: t, options: o, told: make(map[string]float64)}
	s.usual = s.tagging(o.Tags)
	return s
}

// tagging says tags as the options have it.
func (s *Sender) tagging(tags map[string]string) tagging {
	if s.options.Dog {
		return tagging{tags: dogTags(tags), own: tags}
	}
	return tagging{suffix: nameTags(tags), own: tags}
}

// Run sends until ctx is done, and then once more.
func (s *Sender) Run(ctx context.Context) {
	ticks := time.NewTicker(s.options.Interval)
	defer ticks.Stop()
	for {
		select {
		case <-ticks.C:
			s.send(ctx)
		case <-ctx.Done():
			s.send(context.WithoutCancel(ctx))
			s.close()
			return
		}
	}
}

// send sends what has changed.
func (s *Sender) send(ctx context.Context) {
	err := s.try(ctx)
	switch {
	case err != nil && !s.failing:
		s.options.Log.Warn("metrics cannot be sent; they are kept and sent later", "network", s.options.Network, "address", s.options.Address, "error", err)
	case err == nil && s.failing:
		s.options.Log.Info("metrics are sent again", "network", s.options.Network, "address", s.options.Address)
	}
	s.failing = err != nil
	if err != nil || s.options.Network == UDP {
		s.close() // the next time the name may stand for another address
	}
}

func (s *Sender) try(ctx context.Context) error {
	if s.conn == nil {
		dialer := net.Dialer{Timeout: patience}
		conn, err := dialer.DialContext(ctx, s.options.Network, s.options.Address)
		if err != nil {
			return err
		}
		s.conn = conn
	}
	w := s.writer()
	s.tally.each(false, func(c counter) {
		total := c.total
		w.line(appendCount(w.room(c.name), total-*c.sent), func() { *c.sent = total })
	})
	for _, source := range s.options.Sources {
		source(func(m Metric) { s.metric(w, m) })
	}
	s.times(w)
	w.flush()
	if w.err == nil {
		s.tally.forget()
	}
	return w.err
}

// metric writes what a source tells.
func (s *Sender) metric(w *writer, m Metric) {
	usual := w.tagging
	defer func() { w.tagging = usual }()
	switch {
	case m.Bare:
		w.tagging = tagging{}
	case len(m.Tags) > 0:
		w.tagging = s.tagging(merged(s.options.Tags, m.Tags))
	}
	if m.Gauge {
		w.line(appendGauge(w.room(m.Name), m.Value), nil)
		return
	}
	id := m.Name + nameTags(m.Tags)
	before := s.told[id]
	if m.Value < before { // it began anew
		before = 0
	}
	if delta := m.Value - before; delta >= 1 {
		w.line(appendCount(w.room(m.Name), uint64(delta)), func() { s.told[id] = before + float64(uint64(delta)) })
	}
}

// times writes how long the calls of each method took, in whole milliseconds: a
// sample, with its rate.
func (s *Sender) times(w *writer) {
	for _, c := range s.tally.calls {
		sample, seen := c.times.take()
		for _, took := range sample {
			w.line(appendTime(w.room(c.timesName), took, float64(len(sample))/float64(seen)), nil)
		}
	}
}

func (s *Sender) close() {
	if s.conn != nil {
		_ = s.conn.Close() // what matters was written
		s.conn = nil
	}
}
