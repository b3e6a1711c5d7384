package compat

import (
	"cmp"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/ratelimitd/ratelimitd/pkg/settings"
)

// Settings is what the environment asks for, checked. It does not change after
// [Load].
type Settings struct {
	// Settings are those that have a counterpart among ratelimitd's own. The
	// others of these have values that suit what replaces envoyproxy/ratelimit.
	settings.Settings

	// Files say which files are policies.
	Files Files

	// MergeDomains lets several files have policies of one domain.
	MergeDomains bool

	// NeedsFirstState, NeedsPolicies, NeedsFirstContact and NeedsStoreAlways say
	// what the process needs to be ready: that a control plane has sent policies,
	// if only that there are none; policies of a domain; a store that has answered
	// once; one that answers now.
	NeedsFirstState, NeedsPolicies, NeedsFirstContact, NeedsStoreAlways bool

	// KeyPrefix begins every key in Redis.
	KeyPrefix string

	// PerSecond says where the counters of limits per second are, by the
	// settings about Redis alone; nil: where the others are.
	PerSecond *settings.Settings

	// OnlyOver charges only the limits that are over, where some of a request
	// are. Shadow answers OK whatever is decided. Quota takes all limits for
	// quota limits.
	OnlyOver, Shadow, Quota bool

	// Headers are the names of the headers with the limit, what remains of it,
	// and the seconds until the reset; nil: there are none.
	Headers *[3]string

	// DebugOpen lets everybody who reaches the debug pages see them, since it was
	// said where they are to be.
	DebugOpen bool

	Stats   Stats
	Tracing Tracing

	values []Value
}

// Files say which files are policies.
type Files struct {
	// Dir is the directory; empty: there is none, and no policies.
	Dir string

	// Within is how the name of a file begins, seen from Dir: with this and a
	// dot or a slash. Empty: it may be any.
	Within string

	// Dotted are read too, though their name begins with a dot.
	Dotted bool

	// Optional says that Dir need not exist at first.
	Optional bool
}

const (
	// longestWait is how long a request waits that does not say how long.
	longestWait = time.Second

	// maxPolicies is what all policy files may have together. There is no bound
	// there; to load so many takes some gigabytes.
	maxPolicies = 64 << 20
)

// settings translates. What is wrong is added to the faults.
func (e *environment) settings(set map[string]string, f *faults) *Settings {
	s := &Settings{
		Settings:          *settings.Default(),
		Files:             e.files(),
		MergeDomains:      e.merge,
		NeedsFirstState:   e.configType == configXDS && !e.forceStart,
		NeedsPolicies:     e.healthyWithConfig,
		NeedsFirstContact: !e.forceStart,
		NeedsStoreAlways:  e.redisActive,
		KeyPrefix:         e.keyPrefix,
		OnlyOver:          e.onlyOver, Shadow: e.shadow, Quota: e.quota,
		Stats:   e.stats,
		Tracing: e.tracing,
	}
	s.Policies, s.PoliciesMaxSize = s.Files.Dir, maxPolicies
	s.Counting = settings.CountingReference
	s.Body, s.RateLimitHeaders, s.RetryAfterHeader = false, false, false
	s.DynamicMetadata = e.metadata
	if e.headers {
		s.Headers = &[3]string{e.limitName, e.leftName, e.reset}
	}
	s.DrainDelay = 0
	e.listeners(s, set, f)
	e.log(s, f)
	e.plane(s, f)
	e.store(s, f)
	e.check(f)
	return s
}

func (e *environment) files() Files {
	files := Files{Dotted: !e.ignoreDotFiles, Optional: e.watchRoot}
	switch {
	case e.configType != configFile:
	case !e.watchRoot:
		files.Dir = path(e.root, e.subdirectory, e.app)
	case e.subdirectory != "":
		files.Dir, files.Within = path(e.root, e.subdirectory), e.app
	}
	return files
}

// path joins names as the file system reads them.
func path(names ...string) string { return strings.Join(names, "/") }

func (e *environment) listeners(s *Settings, set map[string]string, f *faults) {
	s.HTTPAddress = address("PORT", e.host, e.port, f)
	s.GRPCAddress = address("GRPC_PORT", e.grpcHost, e.grpcPort, f)
	if e.grpcUDS != "" {
		s.GRPCAddress = settings.Address("unix:" + e.grpcUDS)
	}
	s.AdminAddress = address("DEBUG_PORT", cmp.Or(set["DEBUG_HOST"], "127.0.0.1"), e.debugPort, f)
	s.DebugOpen = set["DEBUG_HOST"] != ""
	s.GRPCConnectionAge, s.GRPCConnectionAgeGrace = max(0, e.grpcAge), max(0, e.grpcGrace)
	s.GRPCReflection = false
	e.grpcCertificates(s, f)
	s.Rename(e.names())
}

// names are the variables in the place of settings, for messages.
func (e *environment) names() map[string]string {
	grpc := "GRPC_HOST, GRPC_PORT"
	if e.grpcUDS != "" {
		grpc = "GRPC_UDS"
	}
	return map[string]string{
		"grpc_address": grpc, "http_address": "HOST, PORT", "admin_address": "DEBUG_HOST, DEBUG_PORT",
		"grpc_tls_cert_file": "GRPC_SERVER_TLS_CERT", "grpc_tls_key_file": "GRPC_SERVER_TLS_KEY", "grpc_tls_client_ca_file": "GRPC_CLIENT_TLS_CACERT",
		"xds_tls_cert_file": "CONFIG_GRPC_XDS_CLIENT_TLS_CERT", "xds_tls_key_file": "CONFIG_GRPC_XDS_CLIENT_TLS_KEY", "xds_tls_ca_file": "CONFIG_GRPC_XDS_SERVER_TLS_CACERT",
		"redis_tls_cert_file": "REDIS_TLS_CLIENT_CERT", "redis_tls_key_file": "REDIS_TLS_CLIENT_KEY", "redis_tls_ca_file": "REDIS_TLS_CACERT",
		"memcached_tls_cert_file": "MEMCACHE_TLS_CLIENT_CERT", "memcached_tls_key_file": "MEMCACHE_TLS_CLIENT_KEY", "memcached_tls_ca_file": "MEMCACHE_TLS_CACERT",
	}
}

func (e *environment) grpcCertificates(s *Settings, f *faults) {
	switch {
	case !e.grpcTLS:
		return
	case e.grpcCert == "" || e.grpcKey == "":
		f.add("GRPC_SERVER_USE_TLS", "needs GRPC_SERVER_TLS_CERT and GRPC_SERVER_TLS_KEY")
	case e.grpcSAN != "" && e.grpcClientCA == "":
		f.add("GRPC_CLIENT_TLS_SAN", "needs GRPC_CLIENT_TLS_CACERT, or nobody vouches for the name")
	}
	s.GRPCTLSCertFile, s.GRPCTLSKeyFile = e.grpcCert, e.grpcKey
	s.GRPCTLSClientCAFile, s.GRPCTLSClientSAN = e.grpcClientCA, e.grpcSAN
}

// address is where to listen.
func address(name, host string, port int, f *faults) settings.Address {
	if port < 0 || port > 65535 {
		f.add(name, "%d is no port; from 0 to 65535", port)
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return settings.Address(net.JoinHostPort(host, strconv.Itoa(port)))
}

// levels are the words of LOG_LEVEL.
var levels = map[string]string{
	"panic": "error", "fatal": "error", "error": "error", "warn": "warn", "warning": "warn", "info": "info", "debug": "debug", "trace": "debug",
}

func (e *environment) log(s *Settings, f *faults) {
	level, known := levels[strings.ToLower(e.logLevel)]
	if !known {
		f.add("LOG_LEVEL", "%q is not one of panic, fatal, error, warn, info, debug, trace", e.logLevel)
	}
	s.LogLevel, s.LogFormat = level, settings.LogText
	if e.logFormat == "json" {
		s.LogFormat = settings.LogJSON
	}
}

// The words of CONFIG_TYPE.
const (
	configFile = "FILE"
	configXDS  = "GRPC_XDS_SOTW"
)

func (e *environment) plane(s *Settings, f *faults) {
	switch e.configType {
	case configFile:
		return
	case configXDS:
	default:
		f.add("CONFIG_TYPE", "%q is not one of %s, %s", e.configType, configFile, configXDS)
		return
	}
	s.XDSServer, s.XDSNodeID = e.xdsServer, e.xdsNodeID
	var metadata []string
	for _, word := range words(e.xdsNodeMetadata) {
		if strings.Contains(word, "=") {
			metadata = append(metadata, word)
		}
	}
	s.XDSNodeMetadata = strings.Join(metadata, ",")
	s.XDSHeaders = settings.Secret(joined(e.xdsHeaders))
	if s.XDSTLS = e.xdsTLS; s.XDSTLS {
		s.XDSTLSCertFile, s.XDSTLSKeyFile, s.XDSTLSCAFile, s.XDSTLSServerName = e.xdsCert, e.xdsKey, e.xdsCA, e.xdsSAN
	}
	s.XDSRetry, s.XDSRetryMax = e.xdsBackoff, max(e.xdsBackoff, e.xdsBackoffMax)
	if e.xdsMaxMessage > 0 {
		s.XDSMaxMessage = settings.Size(e.xdsMaxMessage)
	}
	if e.xdsServer == "" {
		f.add("CONFIG_GRPC_XDS_SERVER_URL", "is needed with CONFIG_TYPE=%s", configXDS)
	}
	if s.XDSTLS && (e.xdsCert == "") != (e.xdsKey == "") {
		f.add("CONFIG_GRPC_XDS_CLIENT_TLS_CERT, CONFIG_GRPC_XDS_CLIENT_TLS_KEY", "go together; set both or none")
	}
	if e.xdsBackoff <= 0 {
		f.add("XDS_CLIENT_BACKOFF_INITIAL_INTERVAL", "%v is no wait; more than 0s is", e.xdsBackoff)
	}
}

// check finds faults that remain.
func (e *environment) check(f *faults) {
	if strings.ContainsAny(e.keyPrefix, "{}") {
		f.add("CACHE_KEY_PREFIX", "%q has a { or a }, which in a Redis Cluster say where a key lies; a prefix without them is allowed", e.keyPrefix)
	}
	for _, header := range [...]struct{ variable, name string }{
		{"LIMIT_LIMIT_HEADER", e.limitName}, {"LIMIT_REMAINING_HEADER", e.leftName}, {"LIMIT_RESET_HEADER", e.reset},
	} {
		if e.headers && !isToken(header.name) {
			f.add(header.variable, "%q is no name of a header; letters, digits and - are allowed", header.name)
		}
	}
	e.stats.check(f)
	e.tracing.check(f)
	if r := e.stats.NearLimitRatio; r < 0 || r > 1 {
		f.add("NEAR_LIMIT_RATIO", "%v is no part of a limit; from 0 to 1", r)
	}
	if e.localCache < 0 {
		f.add("LOCAL_CACHE_SIZE_IN_BYTES", "%d is no size; from 0", e.localCache)
	}
}

// isToken reports whether a text can be the name of a header. Envoy writes it
// as it is.
func isToken(name string) bool {
	odd := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	}
	return name != "" && !strings.ContainsFunc(name, odd)
}

// String describes the files for the log.
func (f Files) String() string {
	switch {
	case f.Dir == "":
		return "none"
	case f.Within != "":
		return fmt.Sprintf("%s/%s…", f.Dir, f.Within)
	}
	return f.Dir
}
