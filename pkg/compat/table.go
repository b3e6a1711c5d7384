package compat

// All returns the table of variables, in the order in which they are
// documented. It is the only place that knows which there are.
func All() []Row { return new(environment).rows() }

// rows returns the table with its values in e.
func (e *environment) rows() []Row {
	var all []Row
	for _, group := range []struct {
		name string
		rows []Row
	}{
		{"Listeners", e.listenerRows()}, {"Log", e.logRows()}, {"Policies", e.policyRows()}, {"Control plane", e.xdsRows()},
		{"Counting", e.countingRows()}, {"Answers", e.answerRows()},
		{"Redis", append(e.redisRows(), e.main.rows("REDIS_", "/var/run/nutcracker/ratelimit.sock")...)},
		{"Redis for limits per second", append(e.splitRows(), e.perSecond.rows("REDIS_PERSECOND_", "/var/run/nutcracker/ratelimitpersecond.sock")...)},
		{"Memcached", e.memcached.rows()}, {"Metrics", e.stats.rows()}, {"Tracing", e.tracing.rows()},
	} {
		for _, row := range group.rows {
			row.Group = group.name
			all = append(all, row)
		}
	}
	return all
}

// listenerRows are those of the sockets. Long because they are a table.
func (e *environment) listenerRows() []Row {
	return []Row{
		{Name: "HOST", Default: "0.0.0.0", target: &e.host, Doc: "Where HTTP listens: /json and /healthcheck."},
		{Name: "PORT", Default: "8080", target: &e.port, Doc: "Its port."},
		{
			Name: "DEBUG_HOST", target: &e.debugHost, Doc: "Where the debug pages listen, 0.0.0.0 there.",
			Fate: Better, How: "127.0.0.1 when it is not set, since the pages show what the program holds, and profile it",
		},
		{Name: "DEBUG_PORT", Default: "6070", target: &e.debugPort, Doc: "Its port."},
		{Name: "GRPC_HOST", Default: "0.0.0.0", target: &e.grpcHost, Doc: "Where gRPC listens."},
		{Name: "GRPC_PORT", Default: "8081", target: &e.grpcPort, Doc: "Its port."},
		{
			Name: "GRPC_UDS", target: &e.grpcUDS, Doc: "A unix socket for gRPC, in place of host and port.",
			Fate: Better, How: "a file that is left of a process which was killed is removed",
		},
		{Name: "GRPC_MAX_CONNECTION_AGE", Default: "24h", target: &e.grpcAge, Doc: "After what time a client is asked to connect anew, give or take a tenth."},
		{Name: "GRPC_MAX_CONNECTION_AGE_GRACE", Default: "1h", target: &e.grpcGrace, Doc: "How long its calls may take after that."},
		{Name: "GRPC_SERVER_USE_TLS", Default: "false", target: &e.grpcTLS, Doc: "TLS for gRPC. The files are read again for each connection.", Fate: Better, How: "a new authority is in use at once too, and a bad one changes nothing"},
		{
			Name: "GRPC_SERVER_TLS_CERT", target: &e.grpcCert, Doc: "The certificate.",
			Fate: Better, How: "certificate and key need not be in one directory",
		},
		{Name: "GRPC_SERVER_TLS_KEY", target: &e.grpcKey, Doc: "Its key."},
		{
			Name: "GRPC_CLIENT_TLS_CACERT", target: &e.grpcClientCA, Doc: "Who signs the certificates of clients, which must then have one.",
			Fate: Better, How: "nobody else may: the authorities of the system are not added",
		},
		{
			Name: "GRPC_SERVER_TLS_CA_CERT", target: &e.grpcServerCA, Doc: "Not read there, though Envoy Gateway sets it.",
			Fate: Ignored, How: "as there, so that clients need no certificate; GRPC_CLIENT_TLS_CACERT is what asks them for one",
		},
		{
			Name: "GRPC_CLIENT_TLS_SAN", target: &e.grpcSAN, Doc: "The DNS name that the certificates of clients must have.",
			Fate: Refused, How: "with GRPC_SERVER_USE_TLS and without GRPC_CLIENT_TLS_CACERT it is refused, since there nobody is asked for a certificate",
		},
	}
}

func (e *environment) logRows() []Row {
	return []Row{
		{Name: "LOG_LEVEL", Default: "WARN", target: &e.logLevel, Doc: "The least level that is logged: panic, fatal, error, warn, info, debug, trace."},
		{Name: "LOG_FORMAT", Default: "text", target: &e.logFormat, Doc: "text, or json with `@timestamp`, `@message` and `level`."},
	}
}

// policyRows are those of the policies and of readiness. Long because they are a
// table.
func (e *environment) policyRows() []Row {
	return []Row{
		{Name: "CONFIG_TYPE", Default: "FILE", target: &e.configType, Doc: "Where policies come from: FILE, or GRPC_XDS_SOTW."},
		{
			Name: "FORCE_START_WITHOUT_INITIAL_CONFIG", Default: "false", target: &e.forceStart, Doc: "Start before a control plane has sent policies.",
			Fate: Better, How: "with it the process is ready before Redis is there, too, so that no probe restarts it because something else is late: until then calls fail at once, which Envoy takes as it takes having no replica. " +
				"With REDIS_HEALTH_CHECK_ACTIVE_CONNECTION or HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED it waits all the same",
		},
		{
			Name: "HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED", Default: "false", target: &e.healthyWithConfig,
			Doc: "Whether the process is ready only while it has policies of at least one domain.",
		},
		{Name: "RUNTIME_ROOT", Default: "/srv/runtime_data/current", target: &e.root, Doc: "The root of the policy files."},
		{Name: "RUNTIME_SUBDIRECTORY", target: &e.subdirectory, Doc: "The directory in it. Without one, and with RUNTIME_WATCH_ROOT, no files are read."},
		{Name: "RUNTIME_APPDIRECTORY", Default: "config", target: &e.app, Doc: "The directory in that which has the policies."},
		{
			Name: "RUNTIME_WATCH_ROOT", Default: "true", target: &e.watchRoot,
			Doc:  "Read all names in RUNTIME_ROOT/RUNTIME_SUBDIRECTORY that begin like RUNTIME_APPDIRECTORY and a dot or a slash; otherwise the directory of that name.",
			Fate: Better, How: "either way every change is seen, however it is made and at any depth, within 2 seconds, and never half of it",
		},
		{
			Name: "RUNTIME_IGNOREDOTFILES", Default: "false", target: &e.ignoreDotFiles, Doc: "Leave out files and directories that begin with a dot.",
			Fate: Better, How: "what editors and Kubernetes leave beside policies (swap files, names that end in ~, `..data`) is always left out",
		},
		{Name: "MERGE_DOMAIN_CONFIG", Default: "false", target: &e.merge, Doc: "Whether several files may have policies of one domain."},
	}
}

// xdsRows are those of the control plane. Long because they are a table.
func (e *environment) xdsRows() []Row {
	return []Row{
		{Name: "CONFIG_GRPC_XDS_SERVER_URL", Default: "localhost:18000", target: &e.xdsServer, Doc: "The control plane."},
		{Name: "CONFIG_GRPC_XDS_NODE_ID", Default: "default", target: &e.xdsNodeID, Doc: "The name under which it is asked."},
		{Name: "CONFIG_GRPC_XDS_NODE_METADATA", target: &e.xdsNodeMetadata, Doc: "What else it is told, as `k=v,k2=v2`; parts without = are dropped."},
		{
			Name: "CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL", Default: "3s", target: &e.xdsConnectRetry, Doc: "How often a stream that cannot be opened is tried again.",
			Fate: Ignored, How: "there is one wait between tries, XDS_CLIENT_BACKOFF_INITIAL_INTERVAL",
		},
		{Name: "CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", target: &e.xdsHeaders, secret: true, Doc: "Headers for it, as `k:v,k2:v2`."},
		{Name: "CONFIG_GRPC_XDS_SERVER_USE_TLS", Default: "false", target: &e.xdsTLS, Doc: "TLS to the control plane."},
		{Name: "CONFIG_GRPC_XDS_CLIENT_TLS_CERT", target: &e.xdsCert, Doc: "The client's certificate.", Fate: Better, How: "the files are read again for each connection"},
		{Name: "CONFIG_GRPC_XDS_CLIENT_TLS_KEY", target: &e.xdsKey, Doc: "Its key.", Fate: Refused, How: "one of the two alone is refused"},
		{Name: "CONFIG_GRPC_XDS_SERVER_TLS_CACERT", target: &e.xdsCA, Doc: "Who signs the control plane's certificate."},
		{Name: "CONFIG_GRPC_XDS_SERVER_TLS_SAN", target: &e.xdsSAN, Doc: "The name that its certificate must be for, in place of the host."},
		{Name: "XDS_CLIENT_BACKOFF_INITIAL_INTERVAL", Default: "10s", target: &e.xdsBackoff, Doc: "The wait before a control plane that went away is tried again.", Fate: Refused, How: "0 and less are refused, with which it would be tried without a pause"},
		{Name: "XDS_CLIENT_BACKOFF_MAX_INTERVAL", Default: "60s", target: &e.xdsBackoffMax, Doc: "The longest wait."},
		{
			Name: "XDS_CLIENT_BACKOFF_RANDOM_FACTOR", Default: "0.5", target: &e.xdsBackoffFactor, Doc: "By what a wait is multiplied for the next one.",
			Fate: Ignored, How: "each wait is twice the one before; with a factor below 1, as its default is, waits would never grow",
		},
		{
			Name: "XDS_CLIENT_BACKOFF_JITTER", Default: "true", target: &e.xdsBackoffJitter, Doc: "Whether waits differ by chance.",
			Fate: Ignored, How: "they always do, so that replicas do not come all at once",
		},
		{
			Name: "XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES", Default: "0", target: &e.xdsMaxMessage, Doc: "The largest message from the control plane; 0 is 4 MiB there.",
			Fate: Better, How: "0 is 64 MiB",
		},
	}
}

func (e *environment) countingRows() []Row {
	return []Row{
		{
			Name: "BACKEND_TYPE", Default: "redis", target: &e.backendType, Doc: "Where counts are kept: redis or memcache.",
			Fate: Better, How: "memcache never lets more through than the limit, however many ask, counts units of a month and a year too, does not take a failure for a yes, and is ready when it answers",
		},
		{
			Name: "LOCAL_CACHE_SIZE_IN_BYTES", Default: "0", target: &e.localCache, Doc: "How much memory may remember counters that are over their limit, which are then not asked for. 0 is none.",
			Fate: Better, How: "a counter is asked for again once a second, and at once for another limit, so that a raised limit or hits that are given back count",
		},
		{
			Name: "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT", Default: "false", target: &e.onlyOver,
			Doc:  "Where some limits of a request are over, charge only these.",
			Fate: Better, How: "it is decided and charged at once, in one script",
		},
		{Name: "CACHE_KEY_PREFIX", target: &e.keyPrefix, Doc: "Begins every key in Redis.", Fate: Refused, How: "a prefix with { or } is refused, since in a Redis Cluster these say where a key lies"},
		{
			Name: "EXPIRATION_JITTER_MAX_SECONDS", Default: "300", target: &e.jitter, Doc: "How much longer, by chance, keys are kept than their window.",
			Fate: Ignored, How: "keys are kept as long as they matter, and Redis frees what has expired little by little by itself",
		},
		{Name: "SHADOW_MODE", Default: "false", target: &e.shadow, Doc: "Answer OK whatever the statuses say."},
		{Name: "QUOTA_MODE", Default: "false", target: &e.quota, Doc: "Take all limits for quota limits, and descriptors without limit for quotas that are left."},
	}
}

func (e *environment) answerRows() []Row {
	return []Row{
		{Name: "LIMIT_RESPONSE_HEADERS_ENABLED", Default: "false", target: &e.headers, Doc: "Answer with three headers."},
		{Name: "LIMIT_LIMIT_HEADER", Default: "RateLimit-Limit", target: &e.limitName, Doc: "The name of the first.", Fate: Refused, How: "where they are sent, what is no name of a header is refused"},
		{Name: "LIMIT_REMAINING_HEADER", Default: "RateLimit-Remaining", target: &e.leftName, Doc: "The name of the second.", Fate: Refused, How: "where they are sent, what is no name of a header is refused"},
		{Name: "LIMIT_RESET_HEADER", Default: "RateLimit-Reset", target: &e.reset, Doc: "The name of the third.", Fate: Refused, How: "where they are sent, what is no name of a header is refused"},
		{Name: "RESPONSE_DYNAMIC_METADATA", Default: "false", target: &e.metadata, Doc: "Answer with dynamic metadata."},
	}
}

// redisRows are those that both Redis share.
func (e *environment) redisRows() []Row {
	return []Row{
		{Name: "REDIS_TLS_CLIENT_CERT", target: &e.redisCert, Doc: "The client's certificate, for both Redis."},
		{Name: "REDIS_TLS_CLIENT_KEY", target: &e.redisKey, Doc: "Its key."},
		{Name: "REDIS_TLS_CACERT", target: &e.redisCA, Doc: "Who signs the certificate of Redis.", Fate: Better, How: "nobody else may: the authorities of the system are not added"},
		{Name: "REDIS_TLS_SKIP_HOSTNAME_VERIFICATION", Default: "false", target: &e.redisSkipHost, Doc: "Take a certificate that is for another host, if only it is of an authority."},
		{
			Name: "REDIS_HEALTH_CHECK_ACTIVE_CONNECTION", Default: "false", target: &e.redisActive,
			Doc:  "Whether the process is ready only while Redis answers, and not from the first answer on.",
			Fate: Better, How: "noticed within a second",
		},
		{
			Name: "REDIS_STARTUP_INITIAL_INTERVAL", Default: "1s", target: &e.redisStart, Doc: "How soon Redis is tried again at the start.",
			Fate: Ignored, How: "ports open at once, and a Redis that is away is looked for by each request and every second",
		},
		{Name: "REDIS_STARTUP_MAX_INTERVAL", Default: "30s", target: &e.redisStartMax, Doc: "The longest wait at the start.", Fate: Ignored, How: "as REDIS_STARTUP_INITIAL_INTERVAL"},
		{
			Name: "REDIS_STARTUP_MAX_ELAPSED_TIME", Default: "0", target: &e.redisStartElapsed, Doc: "When to give up; 0 is never.",
			Fate: Ignored, How: "the process never gives up; /healthcheck says that it is not ready, which is when to restart it",
		},
	}
}

func (e *environment) splitRows() []Row {
	return []Row{{
		Name: "REDIS_PERSECOND", Default: "false", target: &e.split, Doc: "Keep the counters of limits per second in another Redis.",
		Fate: Better, How: "both are asked at the same time, and when one is away only its limits are not decided; each has its own `ratelimitd_redis_…` metrics",
	}}
}

// rows are those of one Redis, whose variables begin with a prefix. Long because
// they are a table.
func (e *redisEnvironment) rows(prefix, socket string) []Row {
	return []Row{
		{Name: prefix + "SOCKET_TYPE", Default: "unix", target: &e.socketType, Doc: "tcp or unix."},
		{Name: prefix + "TYPE", Default: "SINGLE", target: &e.kind, Doc: "single, sentinel or cluster, in any case."},
		{
			Name: prefix + "URL", Default: socket, target: &e.url,
			Doc:  "An address or a redis:// URL; with sentinel the master's name and then the sentinels, with cluster some nodes, with commas between them.",
			Fate: Better, How: "a password in it is not logged",
		},
		{
			Name: prefix + "POOL_SIZE", Default: "10", target: &e.poolSize, Doc: "How many connections.",
			Fate: Better, How: "the most, of which as many are opened as are needed",
		},
		{Name: prefix + "AUTH", target: &e.auth, Doc: "A password, or user:password."},
		{
			Name: prefix + "AUTH_FILE", target: &e.authFile, Doc: "A file that holds what " + prefix + "AUTH would.",
			Fate: Better, How: "added here: it is read again for each connection, so that a new password needs no restart",
		},
		{Name: prefix + "SENTINEL_AUTH", target: &e.sentinelAuth, Doc: "A password or user:password for the sentinels."},
		{
			Name: prefix + "SENTINEL_AUTH_FILE", target: &e.sentinelAuthFile, Doc: "A file that holds what " + prefix + "SENTINEL_AUTH would.",
			Fate: Better, How: "added here, as " + prefix + "AUTH_FILE",
		},
		{Name: prefix + "TLS", Default: "false", target: &e.tls, Doc: "TLS to this Redis."},
		{
			Name: prefix + "TIMEOUT", Default: "10s", target: &e.timeout, Doc: "The longest wait for a connection.",
			Fate: Better, How: "an answer is waited for as long as the caller waits, a second at most, and not for ever",
		},
		{
			Name: prefix + "PIPELINE_WINDOW", Default: "0", target: &e.pipelineWindow, Doc: "How long calls are gathered, in a Cluster.",
			Fate: Ignored, How: "calls that come while another one is on its way are sent together, and none waits for that",
		},
		{Name: prefix + "PIPELINE_LIMIT", Default: "0", target: &e.pipelineLimit, Doc: "No effect there.", Fate: Ignored, How: "as there"},
		{
			Name: prefix + "CLUSTER_PIPELINE_PARALLELISM", Default: "1", target: &e.parallelism, Doc: "How many nodes are asked at once.",
			Fate: Ignored, How: "all nodes that a request concerns are asked at once",
		},
		{
			Name: prefix + "POOL_ON_EMPTY_BEHAVIOR", Default: "WAIT", target: &e.onEmpty, Doc: "What to do when no connection is free: WAIT.",
			Fate: Refused, How: "CREATE and ERROR are refused, as there",
		},
	}
}
