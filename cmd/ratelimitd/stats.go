package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/ratelimitd/ratelimitd/pkg/compat"
	"github.com/ratelimitd/ratelimitd/pkg/descriptors"
	"github.com/ratelimitd/ratelimitd/pkg/service"
	"github.com/ratelimitd/ratelimitd/pkg/settings"
	"github.com/ratelimitd/ratelimitd/pkg/statsd"
	"github.com/ratelimitd/ratelimitd/pkg/web"
)

// stats are the metrics under the names of envoyproxy/ratelimit's. The zero
// value has none.
type stats struct {
	tally  *statsd.Tally  // nil: nobody wants them
	sender *statsd.Sender // nil: they are not sent

	// page shows them to Prometheus, on a port of its own; nil: it does not.
	page     *http.Server
	listener net.Listener

	// others are metrics that have another name there.
	others *prometheus.Registry

	sources []statsd.Source // of what others keep; complete before run
}

// also has a source be told besides.
func (s *stats) also(sources ...statsd.Source) { s.sources = append(s.sources, sources...) }

// tell is the source of all of them.
func (s *stats) tell(to func(statsd.Metric)) {
	for _, source := range s.sources {
		source(to)
	}
}

// translations are the names of others.
var translations = []statsd.Translation{
	{Family: "ratelimitd_config_loads_total", Labels: map[string]string{"result": "loaded"}, Name: "ratelimit.service.config_load_success"},
	{Family: "ratelimitd_config_loads_total", Labels: map[string]string{"result": "refused"}, Name: "ratelimit.service.config_load_error"},
	{Family: "ratelimitd_memcached_keys_requested_total", Name: "ratelimit.memcache.keys_requested"},
	{Family: "ratelimitd_memcached_keys_found_total", Name: "ratelimit.memcache.keys_found"},
	memcached("ratelimitd_memcached_reads_total", "", "ok", "multiget", "success"),
	memcached("ratelimitd_memcached_reads_total", "", "error", "multiget", "error"),
	memcached("ratelimitd_memcached_writes_total", "add", "stored", "add", "success"),
	memcached("ratelimitd_memcached_writes_total", "add", "conflict", "add", "not_stored"),
	memcached("ratelimitd_memcached_writes_total", "add", "error", "add", "error"),
	memcached("ratelimitd_memcached_writes_total", "cas", "stored", "increment", "success"),
	memcached("ratelimitd_memcached_writes_total", "cas", "conflict", "increment", "miss"),
	memcached("ratelimitd_memcached_writes_total", "cas", "error", "increment", "error"),
}

// memcached names what became of calls to memcached.
func memcached(family, verb, result, name, code string) statsd.Translation {
	labels := map[string]string{"result": result}
	if verb != "" {
		labels["verb"] = verb
	}
	return statsd.Translation{Family: family, Labels: labels, Name: "ratelimit.memcache." + name, Tags: map[string]string{"code": code}}
}

// maxNamesOnPage is how many names there may be with values of requests in them
// where Prometheus reads all of them at once.
const maxNamesOnPage = 1500

// statsOptions say what is counted and where it goes.
type statsOptions struct {
	tally  statsd.Options
	sender statsd.SenderOptions // Address empty: they are not sent

	exhibit       statsd.ExhibitOptions
	address, path string // of the page; empty: there is none
}

// openStats begins to count, if the settings say so. Beside what was counted its
// page shows what the registry has.
func (m *Main) openStats(registry prometheus.Gatherer) (*stats, error) {
	o := nativeStats(m.Settings)
	if m.Compat != nil {
		var err error
		if o, err = compatStats(&m.Compat.Stats, m.log); err != nil {
			return nil, err
		}
	}
	if o.sender.Address == "" && o.address == "" {
		return &stats{}, nil
	}
	o.tally.Methods = otherMethods()
	s := &stats{tally: statsd.NewTally(o.tally), others: prometheus.NewRegistry()}
	s.also(statsd.Process, statsd.Gathered(s.others, translations), reservedSource(o.sender.Tags))
	if o.address != "" {
		o.exhibit.Sources = []statsd.Source{s.tell}
		return s, s.show(&o, registry, m.log)
	}
	o.sender.Log = m.log
	o.sender.Sources = []statsd.Source{s.tell}
	s.sender = statsd.NewSender(s.tally, o.sender)
	return s, nil
}

// show opens the page.
func (s *stats) show(o *statsOptions, registry prometheus.Gatherer, log *slog.Logger) error {
	exhibit, err := statsd.NewExhibit(s.tally, o.exhibit)
	if err != nil {
		return fmt.Errorf("PROMETHEUS_MAPPER_YAML: %w", err)
	}
	own := prometheus.NewRegistry()
	own.MustRegister(exhibit)
	if s.listener, err = net.Listen("tcp", o.address); err != nil {
		return fmt.Errorf("PROMETHEUS_ADDR: cannot listen on %s: %w%s", o.address, reason(err), hint(err))
	}
	// What a mapping made clash with other metrics is left out.
	metrics := promhttp.HandlerFor(prometheus.Gatherers{own, registry}, promhttp.HandlerOpts{MaxRequestsInFlight: 4, ErrorHandling: promhttp.ContinueOnError})
	s.page = web.NewServer(only(o.path, metrics), log)
	s.listener = web.Bound(s.page, s.listener, maxScrapers)
	return nil
}

// maxScrapers is how many connections the page may have.
const maxScrapers = 64

// only answers with a page, and everywhere else that there is none. A path may be
// any text, as those of a mux may not.
func only(path string, page http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path != path:
			http.NotFound(w, r)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "only GET", http.StatusMethodNotAllowed)
		default:
			page.ServeHTTP(w, r)
		}
	})
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
func compatStats(s *compat.Stats, log *slog.Logger) (statsOptions, error) {
	o := statsOptions{
		tally: statsd.Options{NearLimitRatio: s.NearLimitRatio},
		sender: statsd.SenderOptions{
			Network:  cmp.Or(s.Protocol, statsd.TCP),
			Interval: s.FlushInterval,
			Tags:     undotted(s.ExtraTags),
			Dog:      s.DogStatsd,
		},
	}
	if s.DogStatsd {
		o.sender.Network = statsd.UDP
		for name, value := range s.Datadog.Tags() {
			if _, extra := o.sender.Tags[name]; !extra {
				o.sender.Tags[name] = value
			}
		}
	}
	if (s.Statsd || s.DogStatsd) && !s.Disabled {
		o.sender.Address = net.JoinHostPort(s.Host, strconv.Itoa(s.Port))
	}
	for _, name := range s.Mogrifiers {
		m, err := mogrifier(s.MogrifierRules, name)
		if err != nil {
			return o, fmt.Errorf("DOG_STATSD_MOGRIFIER_%s: %w", name, err)
		}
		o.sender.Mogrifiers = append(o.sender.Mogrifiers, m)
	}
	if !s.Prometheus || s.Disabled {
		return o, nil
	}
	o.address, o.path = s.PrometheusAddr, "/"+strings.TrimPrefix(s.PrometheusPath, "/")
	o.tally.MaxNamesInAll = maxNamesOnPage
	o.exhibit = statsd.ExhibitOptions{Tags: s.ExtraTags, Milliseconds: s.Milliseconds}
	if s.PrometheusRules == "" {
		return o, nil
	}
	text, err := os.ReadFile(s.PrometheusRules)
	switch {
	case errors.Is(err, fs.ErrNotExist): // Envoy Gateway names one that need not be mounted
		log.Warn("there is no mapping for Prometheus, so the built-in one holds", "error", err)
	case err != nil:
		return o, fmt.Errorf("PROMETHEUS_MAPPER_YAML: %w", err)
	}
	o.exhibit.Mapping = string(text)
	return o, nil
}

// undotted are the tags as envoyproxy/ratelimit sends them, also where a dot could
// stay.
func undotted(tags map[string]string) map[string]string {
	all := make(map[string]string, len(tags))
	for name, value := range tags {
		all[name] = strings.ReplaceAll(value, ".", "_")
	}
	return all
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

// mogrifier reads the variables of a mogrifier.
func mogrifier(rules map[string]string, name string) (statsd.Mogrifier, error) {
	tags := make(map[string]string)
	for word := range strings.SplitSeq(rules[name+"_TAGS"], ",") {
		if tag, value, found := strings.Cut(strings.TrimSpace(word), ":"); found {
			tags[tag] = value
		} else if tag != "" {
			return statsd.Mogrifier{}, fmt.Errorf("the tag %q is not name:value", tag)
		}
	}
	return statsd.NewMogrifier(rules[name+"_PATTERN"], rules[name+"_NAME"], tags)
}

// run sends, or shows, until ctx is done.
func (s *stats) run(ctx context.Context) {
	if s.page != nil {
		stop := context.AfterFunc(ctx, func() { _ = s.page.Close() })
		defer stop()
		_ = s.page.Serve(s.listener) // it ends with ctx
	}
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

// close frees the port of the page, if it is open.
func (s *stats) close() {
	if s.listener != nil {
		_ = s.listener.Close()
	}
}
