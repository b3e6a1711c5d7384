package settings

// The groups of settings, in the order of the table.
const (
	groupFile    = "Settings file"
	groupPolicy  = "Policies"
	groupXDS     = "Control plane"
	groupListen  = "Listeners"
	groupStore   = "Store"
	groupRedis   = "Redis"
	groupCached  = "Memcached"
	groupAnswers = "Answers"
	groupStatsd  = "Statsd"
	groupTracing = "Tracing"
	groupLog     = "Log"
	groupLife    = "Start and stop"
)

// The words of the settings that are choices.
const (
	CountingPrecise   = "precise"
	CountingReference = "reference"

	StoreMemory    = "memory"
	StoreRedis     = "redis"
	StoreMemcached = "memcached"

	StatsdUDP = "udp"
	StatsdTCP = "tcp"

	DialectStatsd    = "statsd"
	DialectDogstatsd = "dogstatsd"

	LogText = "text"
	LogJSON = "json"

	ReadyWhenListening    = "listening"
	ReadyWithPolicies     = "policies"
	ReadyWithFirstContact = "first_contact"
	ReadyWithStore        = "store"
)

// All returns the table of settings, in the order in which they are
// documented. It is the only place that knows what settings there are.
func All() []Setting { return table(&Settings{}) }

// table returns the rows with their fields in s.
func table(s *Settings) []Setting {
	var rows []Setting
	for _, group := range []struct {
		name string
		rows []Setting
	}{
		{groupFile, fileRows(s)}, {groupPolicy, policyRows(s)}, {groupXDS, xdsRows(s)}, {groupListen, listenRows(s)}, {groupStore, storeRows(s)},
		{groupRedis, redisRows(s)}, {groupCached, memcachedRows(s)}, {groupAnswers, answerRows(s)}, {groupStatsd, statsdRows(s)}, {groupTracing, tracingRows(s)},
		{groupLog, logRows(s)}, {groupLife, lifeRows(s)},
	} {
		for _, row := range group.rows {
			row.Group = group.name
			rows = append(rows, row)
		}
	}
	return rows
}

func fileRows(s *Settings) []Setting {
	return []Setting{
		{
			Name: "config", target: &s.Config, Default: "config/ratelimitd.yaml", FileLess: true,
			Doc: "The settings file. It need not exist, unless it is named here.",
		},
	}
}

func policyRows(s *Settings) []Setting {
	return []Setting{
		{
			Name: "policies", target: &s.Policies,
			Doc: "The directory of policy files, *.yaml and *.yml at any depth. It is watched: a change is in force within 2 seconds, " +
				"and a bad one leaves the last good rules in force. Empty uses the samples inside the program.",
		},
		{
			Name: "policies_max_size", target: &s.PoliciesMaxSize, Default: "4MiB", Min: "1KiB", Max: "1GiB",
			Doc: "The most that all policy files may have together, and no single one more than 16MiB. To load them takes about 60 times as much memory; 4MiB are some 60,000 rules.",
		},
		{
			Name: "counting", target: &s.Counting, Default: CountingPrecise, Choices: []string{CountingPrecise, CountingReference},
			Doc: "How domains that do not say are counted. precise charges a request's limits together or not at all; " +
				"reference charges each on its own, denied requests too, as envoyproxy/ratelimit does.",
		},
		{
			Name: "region", target: &s.Region,
			Doc: "The region of this replica. Limits whose policy does not say region: shared have a counter for each region then, also where " +
				"all regions use one Redis. Empty is no region. Another region starts new counts.",
		},
	}
}

// listenRows are those of the listeners. Long because they are a table.
func xdsRows(s *Settings) []Setting {
	return []Setting{
		{
			Name: "xds_server", target: &s.XDSServer,
			Doc: "The control plane that sends policies over xDS, as Envoy Gateway does: host:port. They are in force together with those of policies, " +
				"if that is set, and stay so when the control plane goes away. Empty is none.",
		},
		{
			Name: "xds_node_id", target: &s.XDSNodeID, Default: "ratelimitd",
			Doc: "Under which name this process asks the control plane, which may have something else for each.",
		},
		{
			Name: "xds_node_metadata", target: &s.XDSNodeMetadata,
			Doc: "What else the control plane is told of this process, as name=value,name=value.",
		},
		{
			Name: "xds_headers", target: &s.XDSHeaders,
			Doc: "Headers for the control plane, as name=value,name=value. For a token, say.",
		},
		{
			Name: "xds_tls", target: &s.XDSTLS, Default: "false",
			Doc: "Talk to the control plane over TLS, 1.3 and no less. The files below are read again for each connection.",
		},
		{
			Name: "xds_tls_ca_file", target: &s.XDSTLSCAFile,
			Doc: "A PEM file with the authorities that may sign the control plane's certificate. Empty is the system's.",
		},
		{
			Name: "xds_tls_cert_file", target: &s.XDSTLSCertFile,
			Doc: "A PEM file with this client's certificate for the control plane.",
		},
		{
			Name: "xds_tls_key_file", target: &s.XDSTLSKeyFile,
			Doc: "A PEM file with the key of xds_tls_cert_file.",
		},
		{
			Name: "xds_tls_server_name", target: &s.XDSTLSServerName,
			Doc: "The name that the control plane's certificate must be for. Empty is the host of xds_server.",
		},
		{
			Name: "xds_max_message", target: &s.XDSMaxMessage, Default: "64MiB", Min: "1KiB", Max: "1GiB",
			Doc: "The largest set of policies that the control plane may send.",
		},
		{
			Name: "xds_retry", target: &s.XDSRetry, Default: "1s", Min: "10ms", Max: "1h",
			Doc: "How long to wait before a control plane that went away is tried again. Each further wait is twice as long, and up to a third shorter by chance.",
		},
		{
			Name: "xds_retry_max", target: &s.XDSRetryMax, Default: "30s", Min: "10ms", Max: "24h",
			Doc: "The longest of these waits.",
		},
	}
}

// listenRows are those of the sockets. Long because they are a table.
func listenRows(s *Settings) []Setting {
	return []Setting{
		{
			Name: "grpc_address", target: &s.GRPCAddress, Default: ":8081", Socket: true,
			Doc: "Where gRPC listens: the rate limit service, health and reflection. A unix socket is unix:path; who may connect is as the umask says.",
		},
		{
			Name: "http_address", target: &s.HTTPAddress, Default: ":8080",
			Doc: "Where HTTP listens: /json, /healthcheck and /metrics.",
		},
		{
			Name: "admin_address", target: &s.AdminAddress, Default: "127.0.0.1:6070", Choices: []string{string(Off)},
			Doc: "Where the admin pages listen: rules, settings, log level, pprof. Anywhere but on loopback they need a token or " +
				"admin_tls_client_ca_file, or the program does not start.",
		},
		{
			Name: "admin_token", target: &s.AdminToken,
			Doc: "A token of at least 16 characters, which all requests of the admin pages must carry then, as Authorization: Bearer TOKEN. " +
				"Who can listen on the way learns it, but for TLS. Everybody on the machine can see flags: set it elsewhere.",
		},
		{
			Name: "admin_token_file", target: &s.AdminTokenFile,
			Doc: "A file that holds the token, as a mounted Secret does. Read at the start.",
		},
		{
			Name: "admin_tls_cert_file", target: &s.AdminTLSCertFile,
			Doc: "A PEM file with the certificate of the admin pages, which are then served over TLS. The files of admin_tls_… are read " +
				"again for each connection.",
		},
		{
			Name: "admin_tls_key_file", target: &s.AdminTLSKeyFile,
			Doc: "A PEM file with the key of admin_tls_cert_file.",
		},
		{
			Name: "admin_tls_client_ca_file", target: &s.AdminTLSClientCAFile,
			Doc: "A PEM file with the authorities of which one must have signed the certificate that a client of the admin pages shows. Empty asks for none.",
		},
		{
			Name: "grpc_tls_cert_file", target: &s.GRPCTLSCertFile,
			Doc: "A PEM file with the certificate of gRPC, which is then served over TLS only. The files of grpc_tls_… are read again for each " +
				"connection; while they are bad, the last good ones serve, and the log says so.",
		},
		{
			Name: "grpc_tls_key_file", target: &s.GRPCTLSKeyFile,
			Doc: "A PEM file with the key of grpc_tls_cert_file.",
		},
		{
			Name: "grpc_tls_client_ca_file", target: &s.GRPCTLSClientCAFile,
			Doc: "A PEM file with the authorities of which one must have signed the certificate that a client of gRPC shows. No others are trusted. Empty asks for none.",
		},
		{
			Name: "grpc_tls_client_san", target: &s.GRPCTLSClientSAN,
			Doc: "The DNS name that the certificate of a client of gRPC must be for. Empty is any. Needs grpc_tls_client_ca_file.",
		},
		{
			Name: "grpc_max_message", target: &s.GRPCMaxMessage, Default: "16MiB", Min: "1KiB", Max: "1GiB",
			Doc: "The largest request. A larger one is not read, and is answered OVER_LIMIT: do not go below what clients can make Envoy send.",
		},
		{
			Name: "grpc_max_header_list", target: &s.GRPCMaxHeaderList, Default: "1MiB", Min: "4KiB", Max: "16MiB",
			Doc: "The most that the headers of a call may take, 32 bytes for each of them besides. A larger call is an error, which may let a request through: do not go below what clients can make Envoy send.",
		},
		{
			Name: "grpc_max_connections", target: &s.GRPCMaxConnections, Default: "4096", Min: "1", Max: "1000000",
			Doc: "The most connections of gRPC. A further one takes the place of the one that has been silent for the longest since it was opened; if all have spoken, it is closed. Envoy has one for each worker thread.",
		},
		{
			Name: "grpc_max_streams", target: &s.GRPCMaxStreams, Default: "4096", Min: "1", Max: "1000000",
			Doc: "The most calls that a connection may have open. Envoy opens another connection when it needs more. " +
				"Whatever this and grpc_max_connections say: when clients together leave more than 128 MiB unfinished, those that stall for a second are cut off.",
		},
		{
			Name: "grpc_connection_age", target: &s.GRPCConnectionAge, Default: "1h", Min: "0s",
			Doc: "After this time, give or take a tenth, a connection is asked to close, so that clients spread over new replicas. 0s is never.",
		},
		{
			Name: "grpc_connection_age_grace", target: &s.GRPCConnectionAgeGrace, Default: "1m", Min: "0s",
			Doc: "How long a connection that is asked to close may finish its calls. 0s is for ever.",
		},
		{
			Name: "grpc_reflection", target: &s.GRPCReflection, Default: "true",
			Doc: "Whether gRPC tells clients such as grpcurl what it serves.",
		},
		{
			Name: "http_max_body", target: &s.HTTPMaxBody, Default: "1MiB", Min: "1KiB", Max: "1GiB",
			Doc: "The largest body of a request to /json.",
		},
		{
			Name: "http_max_connections", target: &s.HTTPMaxConnections, Default: "1024", Min: "1", Max: "1000000",
			Doc: "The most connections of HTTP. For a further one, the one that has been idle longest is closed, or itself if all are in use. The admin pages have 64.",
		},
		{
			Name: "max_descriptors", target: &s.MaxDescriptors, Default: "512", Min: "1", Max: "65536",
			Doc: "The most descriptors of a request, and the most limits that they may meet together. One with more is answered OVER_LIMIT and charged nothing. " +
				"Redis takes about 5 microseconds for each, and others wait meanwhile.",
		},
	}
}

func storeRows(s *Settings) []Setting {
	return []Setting{
		{
			Name: "store", target: &s.Store, Default: StoreMemory, Choices: []string{StoreMemory, StoreRedis, StoreMemcached},
			Doc: "Where counts are kept. memory is this process alone; redis is shared by all replicas, and so is memcached, which forgets counts when it is full or starts anew.",
		},
		{
			Name: "store_timeout", target: &s.StoreTimeout, Default: "15ms", Min: "1ms", Max: "1m",
			Doc: "How long after its arrival a request is answered at the latest: what the store has not decided then is answered as its on_store_error says. " +
				"A request that says how long it waits, as those of Envoy do, is answered before that. With the store in memory nothing is waited for.",
		},
		{
			Name: "hash_values", target: &s.HashValues, Default: "false",
			Doc: "Put keyed hashes in the place of the values of descriptors: in counters' keys and in dynamic metadata. Values that a policy spells out stay. " +
				"Needs a key. Switching it on or off begins new counts.",
		},
		{
			Name: "hash_values_key", target: &s.HashValuesKey,
			Doc: "The key of hash_values: 16 bytes or more that nobody can guess, as openssl rand -hex 32 makes them. All replicas that share counts need " +
				"the same. Another key begins new counts. Everybody on the machine can see flags: set it elsewhere.",
		},
		{
			Name: "hash_values_key_file", target: &s.HashValuesKeyFile,
			Doc: "A file that holds the key, as a mounted Secret does. Read at the start.",
		},
		{
			Name: "memory_max_keys", target: &s.MemoryMaxKeys, Default: "1000000", Min: "1", Max: "1000000000",
			Doc: "The most counters in memory, about 250 bytes each. When full, the ones nearest to unused go first.",
		},
		{
			Name: "memory_max_size", target: &s.MemoryMaxSize, Default: "0", Min: "0", Max: "1024GiB",
			Doc: "The most memory that counters may take, roughly. It matters for sliding_window_log, whose counters grow with the limit. 0 is no bound but memory_max_keys.",
		},
		{
			Name: "known_over_keys", target: &s.KnownOverKeys, Default: "65536", Min: "0", Max: "100000000",
			Doc: "How many counters that are over their limit are remembered, each for its retry-after and a second at most, and refused without asking Redis or memcached. " +
				"Hits that another replica gives back are noticed that much later. Domains with counting reference are always asked. 0 remembers none.",
		},
		{
			Name: "local_max_size", target: &s.LocalMaxSize, Default: "64MiB", Min: "1MiB", Max: "1024GiB",
			Doc: "The most memory, roughly, that counters of limits with on_store_error: local may take while Redis is away, about 250 bytes each. When full, the ones nearest to unused go first.",
		},
		{
			Name: "replicas", target: &s.Replicas, Default: "1", Min: "1", Max: "10000",
			Doc: "How many replicas there are, for limits with on_store_error: local, until Redis has told: there they count each other. It matters to a process that starts while Redis is away, and with memcached, which tells nobody.",
		},
	}
}

// redisRows are those of the Redis store. Long because they are a table.
func redisRows(s *Settings) []Setting {
	return []Setting{
		{
			Name: "redis_url", target: &s.RedisURL, Default: "redis://127.0.0.1:6379",
			Doc: "Where Redis is. User, password and database may be part of it, as in redis://user:password@host:port/0.",
		},
		{
			Name: "redis_username", target: &s.RedisUsername,
			Doc: "The user of Redis' access control list. It goes before one in redis_url.",
		},
		{
			Name: "redis_password", target: &s.RedisPassword,
			Doc: "The password of Redis. It goes before one in redis_url. Everybody on the machine can see flags: set it elsewhere.",
		},
		{
			Name: "redis_password_file", target: &s.RedisPasswordFile,
			Doc: "A file that holds the password, as a mounted Secret does. It is read again for each new connection; while it is empty or cannot be read, the last password stays in use.",
		},
		{
			Name: "redis_sentinel_username", target: &s.RedisSentinelUsername,
			Doc: "The user of the sentinels themselves. It goes before one in redis_url.",
		},
		{
			Name: "redis_sentinel_password", target: &s.RedisSentinelPassword,
			Doc: "The password of the sentinels themselves. It goes before one in redis_url.",
		},
		{
			Name: "redis_sentinel_password_file", target: &s.RedisSentinelPasswordFile,
			Doc: "A file that holds it, read as redis_password_file is.",
		},
		{
			Name: "redis_password_files_have_user", target: &s.RedisPasswordFilesHaveUser, Default: "false",
			Doc: "Whether these files may hold user:password, so that the user can change too. It goes before redis_username and redis_sentinel_username.",
		},
		{
			Name: "redis_tls_ca_file", target: &s.RedisTLSCAFile,
			Doc: "A PEM file with the authorities that may sign Redis' certificate. Empty is the system's. TLS itself is switched on by rediss:// in redis_url. " +
				"The files of redis_tls_… are read again for each connection; while they are bad, the last good ones serve, and the log says so.",
		},
		{
			Name: "redis_tls_cert_file", target: &s.RedisTLSCertFile,
			Doc: "A PEM file with this client's certificate.",
		},
		{
			Name: "redis_tls_key_file", target: &s.RedisTLSKeyFile,
			Doc: "A PEM file with the key of redis_tls_cert_file.",
		},
		{
			Name: "redis_tls_server_name", target: &s.RedisTLSServerName,
			Doc: "The name that Redis' certificate must be for. Empty is the host in redis_url.",
		},
		{
			Name: "redis_tls_any_name", target: &s.RedisTLSAnyName, Default: "false",
			Doc: "Take a certificate of Redis that is for another name, if only one of the authorities has signed it.",
		},
		{
			Name: "redis_tls_skip_verify", target: &s.RedisTLSSkipVerify, Default: "false",
			Doc: "Trust any certificate of Redis. Only to try things.",
		},
		{
			Name: "redis_dial_timeout", target: &s.RedisDialTimeout, Default: "500ms", Min: "1ms", Max: "1m",
			Doc: "The longest wait for a connection to Redis.",
		},
		{
			Name: "redis_pool_size", target: &s.RedisPoolSize, Default: "32", Min: "1", Max: "10000",
			Doc: "The most connections to Redis, for each node of a cluster.",
		},
		{
			Name: "redis_per_second_url", target: &s.RedisPerSecondURL,
			Doc: "Where the Redis is that keeps the counters of limits whose window is one second, if that is another one. It may be of another shape. " +
				"User and passwords are those in this URL; the other settings about Redis hold for both.",
		},
	}
}

func answerRows(s *Settings) []Setting {
	return []Setting{
		{
			Name: "rate_limit_headers", target: &s.RateLimitHeaders, Default: "true",
			Doc: "Answer with the headers RateLimit and RateLimit-Policy of the IETF draft.",
		},
		{
			Name: "rate_limit_legacy_headers", target: &s.RateLimitLegacyHeaders, Default: "false",
			Doc: "Answer with RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset.",
		},
		{
			Name: "x_rate_limit_headers", target: &s.XRateLimitHeaders, Default: "false",
			Doc: "Answer with X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset. Envoy can write these itself: then leave this off.",
		},
		{
			Name: "retry_after_header", target: &s.RetryAfterHeader, Default: "true",
			Doc: "Answer a denied request with Retry-After.",
		},
		{
			Name: "delay_header", target: &s.DelayHeader, Default: "false",
			Doc: "Answer with X-RateLimit-Delay-Ms, the wait in a leaky bucket's queue.",
		},
		{
			Name: "degraded_header", target: &s.DegradedHeader, Default: "false",
			Doc: "Answer with X-RateLimit-Degraded where Redis did not decide and on_store_error did: allow, deny or local.",
		},
		{
			Name: "body", target: &s.Body, Default: "false",
			Doc: "Answer a denied request with an application/problem+json body: the error, a message and the seconds to wait. " +
				"Clients of Envoy that speak gRPC get it as the text of their error.",
		},
		{
			Name: "dynamic_metadata", target: &s.DynamicMetadata, Default: "false",
			Doc: "Tell Envoy's other filters and its access log, in dynamic metadata, what was decided and by which rule.",
		},
	}
}

func statsdRows(s *Settings) []Setting {
	return []Setting{
		{
			Name: "statsd_address", target: &s.StatsdAddress,
			Doc: "The statsd server that metrics are sent to, host:port, under the names that those of envoyproxy/ratelimit have. Empty sends none.",
		},
		{
			Name: "statsd_network", target: &s.StatsdNetwork, Default: StatsdUDP, Choices: []string{StatsdUDP, StatsdTCP},
			Doc: "How they are sent. Over tcp what cannot be sent is kept and sent later.",
		},
		{
			Name: "statsd_interval", target: &s.StatsdInterval, Default: "10s", Min: "100ms", Max: "1h",
			Doc: "How often they are sent.",
		},
		{
			Name: "statsd_tags", target: &s.StatsdTags,
			Doc: "Tags of all of them, as name=value,name=value.",
		},
		{
			Name: "statsd_dialect", target: &s.StatsdDialect, Default: DialectStatsd, Choices: []string{DialectStatsd, DialectDogstatsd},
			Doc: "How tags are written: as .__name=value behind a metric's name, or as dogstatsd has them.",
		},
		{
			Name: "statsd_max_names", target: &s.StatsdMaxNames, Default: "1000", Min: "1", Max: "10000",
			Doc: "How many names the metrics of a rule may have whose policy puts values of requests into them, and those of the limits that requests bring along " +
				"for a domain. What would be one more is counted under one name that ends with overflow.",
		},
	}
}

func tracingRows(s *Settings) []Setting {
	return []Setting{
		{
			Name: "tracing", target: &s.Tracing, Default: "false",
			Doc: "Send spans of requests over OTLP, to where OpenTelemetry's variables say: OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_SERVICE_NAME and the like.",
		},
		{
			Name: "tracing_sampling_rate", target: &s.TracingSamplingRate, Default: "1",
			Doc: "Which part of the requests is traced that are not part of a trace. Others are traced if their caller's span is.",
		},
	}
}

func logRows(s *Settings) []Setting {
	return []Setting{
		{
			Name: "log_level", target: &s.LogLevel, Default: "info", Choices: []string{"debug", "info", "warn", "error"},
			Doc: "The least level that is logged. Nothing is logged per request. The admin pages can change it.",
		},
		{
			Name: "log_format", target: &s.LogFormat, Default: LogText, Choices: []string{LogText, LogJSON},
			Doc: "How a line of the log is written, on standard error.",
		},
	}
}

func lifeRows(s *Settings) []Setting {
	return []Setting{
		{
			Name: "readiness", target: &s.Readiness, Default: ReadyWithFirstContact,
			Choices: []string{ReadyWhenListening, ReadyWithPolicies, ReadyWithFirstContact, ReadyWithStore},
			Doc: "What the process waits for before it says that it is ready. listening: nothing; until there are rules, requests are answered with an error. policies: rules in force. first_contact: also that the store has " +
				"answered once; later failures are for each limit's on_store_error. store: also that the store answers now.",
		},
		{
			Name: "drain_delay", target: &s.DrainDelay, Default: "5s", Min: "0s", Max: "1h",
			Doc: "How long a process that was told to stop keeps answering, while it says that it is not ready, so that clients go elsewhere.",
		},
		{
			Name: "shutdown_timeout", target: &s.ShutdownTimeout, Default: "10s", Min: "0s", Max: "1h",
			Doc: "How long calls in flight may take after that. Together with drain_delay, stay below Kubernetes' terminationGracePeriodSeconds (30 by default).",
		},
	}
}
