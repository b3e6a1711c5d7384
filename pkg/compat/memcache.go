package compat

import (
	"strings"
	"time"

	"github.com/ratelimitd/ratelimitd/pkg/settings"
)

// memcacheEnvironment is what the variables say of memcached.
type memcacheEnvironment struct {
	hosts      []string
	idle       int
	srv        string
	refresh    time.Duration
	tls        bool
	cert, key  string
	ca         string
	noHostname bool
}

func (e *memcacheEnvironment) rows() []Row {
	return []Row{
		{
			Name: "MEMCACHE_HOST_PORT", target: &e.hosts, Doc: "The servers.",
			Fate: Better, How: "a server more or less moves only its own counters, and one that is away concerns only these",
		},
		{
			Name: "MEMCACHE_MAX_IDLE_CONNS", Default: "2", target: &e.idle, Doc: "Idle connections to each that are kept.",
			Fate: Better, How: "16 at least, of which as many are opened as are needed",
		},
		{
			Name: "MEMCACHE_SRV", target: &e.srv, Doc: "A DNS name that lists them, as _service._proto.name.",
			Fate: Better, How: "the process starts without an answer, and asks on",
		},
		{Name: "MEMCACHE_SRV_REFRESH", Default: "0", target: &e.refresh, Doc: "How often it is asked for again; 0 is never.", Fate: Better, How: "once a second at most"},
		{Name: "MEMCACHE_TLS", Default: "false", target: &e.tls, Doc: "TLS to them."},
		{Name: "MEMCACHE_TLS_CLIENT_CERT", target: &e.cert, Doc: "The client's certificate.", Fate: Better, How: "the files are read again for each connection"},
		{Name: "MEMCACHE_TLS_CLIENT_KEY", target: &e.key, Doc: "Its key."},
		{Name: "MEMCACHE_TLS_CACERT", target: &e.ca, Doc: "Who signs theirs.", Fate: Better, How: "nobody else may: the authorities of the system are not added"},
		{Name: "MEMCACHE_TLS_SKIP_HOSTNAME_VERIFICATION", Default: "false", target: &e.noHostname, Doc: "Take a certificate that is for another host."},
	}
}

const (
	// leastConnections and mostConnections bound the connections to each server.
	leastConnections, mostConnections = 16, 1000

	// longestPrefix is how much of memcached's 250 bytes for a key a prefix may
	// take.
	longestPrefix = 200
)

// settings puts what is said into settings.
func (e *memcacheEnvironment) settings(s *settings.Settings, prefix string, f *faults) {
	s.Store = settings.StoreMemcached
	s.MemcachedServers = strings.Join(e.hosts, ",")
	s.MemcachedSRV, s.MemcachedSRVRefresh = e.srv, max(0, e.refresh)
	s.MemcachedConnections = min(max(e.idle, leastConnections), mostConnections)
	if s.MemcachedTLS = e.tls; e.tls {
		s.MemcachedTLSCAFile, s.MemcachedTLSCertFile, s.MemcachedTLSKeyFile, s.MemcachedTLSAnyName = e.ca, e.cert, e.key, e.noHostname
	}
	switch {
	case len(e.hosts) == 0 && e.srv == "":
		f.add("BACKEND_TYPE", "memcache needs MEMCACHE_HOST_PORT or MEMCACHE_SRV, which say where it is")
	case len(e.hosts) > 0 && e.srv != "":
		f.add("MEMCACHE_SRV", "and MEMCACHE_HOST_PORT both say where memcached is; set one of them")
	}
	if parts := strings.SplitN(e.srv, ".", 3); e.srv != "" && (len(parts) < 3 || !strings.HasPrefix(parts[0], "_") || !strings.HasPrefix(parts[1], "_")) {
		f.add("MEMCACHE_SRV", "%q is not _service._proto.name", e.srv)
	}
	if len(prefix) > longestPrefix || strings.ContainsFunc(prefix, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		f.add("CACHE_KEY_PREFIX", "%q has a blank, or more than %d bytes, which memcached does not take in a key", prefix, longestPrefix)
	}
}
