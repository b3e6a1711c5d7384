package compat

import (
	"time"

	"github.com/ratelimitd/ratelimitd/pkg/settings"
)

// environment is what the variables say, as they say it.
type environment struct {
	host, debugHost, grpcHost string
	port, debugPort, grpcPort int
	grpcUDS                   string
	grpcAge, grpcGrace        time.Duration
	grpcTLS                   bool
	grpcCert, grpcKey         string
	grpcClientCA, grpcSAN     string
	grpcServerCA              string

	logLevel, logFormat string

	configType                 string
	forceStart                 bool
	root, subdirectory, app    string
	ignoreDotFiles, watchRoot  bool
	merge                      bool
	healthyWithConfig          bool
	xdsNodeID, xdsNodeMetadata string
	xdsServer                  string
	xdsConnectRetry            time.Duration
	xdsHeaders                 map[string]string
	xdsTLS                     bool
	xdsCert, xdsKey, xdsCA     string
	xdsSAN                     string
	xdsBackoff, xdsBackoffMax  time.Duration
	xdsBackoffFactor           float64
	xdsBackoffJitter           bool
	xdsMaxMessage              int
	backendType                string
	jitter, localCache         int
	keyPrefix                  string
	onlyOver                   bool
	headers                    bool
	limitName, leftName, reset string
	shadow, quota, metadata    bool
	main, perSecond            redisEnvironment
	split                      bool
	redisCert, redisKey        string
	redisCA                    string
	redisSkipHost              bool
	redisActive                bool
	redisStart, redisStartMax  time.Duration
	redisStartElapsed          time.Duration
	memcached                  memcacheEnvironment

	stats   Stats
	tracing Tracing
}

// redisEnvironment is what the variables say of one of the two Redis.
type redisEnvironment struct {
	socketType, kind, url string
	poolSize              int
	auth, sentinelAuth    settings.Secret
	authFile              string
	sentinelAuthFile      string
	tls                   bool
	pipelineWindow        time.Duration
	pipelineLimit         int
	parallelism           int
	timeout               time.Duration
	onEmpty               string
}
