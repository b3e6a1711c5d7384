package main

import (
	"context"
	"path"
	"time"

	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/ratelimitd/ratelimitd/internal/certificates"
	"github.com/ratelimitd/ratelimitd/pkg/backend"
	"github.com/ratelimitd/ratelimitd/pkg/reload"
	"github.com/ratelimitd/ratelimitd/pkg/statsd"
)

// What is told here under the names of envoyproxy/ratelimit's metrics is kept by
// others, and asked for only when it is sent or shown.

// count is a counter, gauge one that can fall.
func count(name string, total uint64) statsd.Metric {
	return statsd.Metric{Name: name, Value: float64(total)}
}

func gauge(name string, value uint64) statsd.Metric {
	return statsd.Metric{Name: name, Value: float64(value), Gauge: true}
}

// poolSource tells of the connections to a Redis, under a name such as
// ratelimit.redis_pool.
func poolSource(name string, pool func() backend.Connections) statsd.Source {
	return func(tell func(statsd.Metric)) {
		now := pool()
		tell(gauge(name+".cx_active", now.Opened-now.Closed))
		tell(count(name+".cx_total", now.Opened))
		tell(count(name+".cx_local_close", now.Closed))
	}
}

// localCacheSource tells what there is in the place of the local cache. Nothing
// there keeps the time at which it was last used.
func localCacheSource(known *backend.KnownOver) statsd.Source {
	return func(tell func(statsd.Metric)) {
		const name = "ratelimit.localcache."
		now := known.Stats()
		tell(gauge(name+"entryCount", uint64(now.Keys)))
		tell(gauge(name+"lookupCount", now.Lookups))
		tell(gauge(name+"hitCount", now.Hits))
		tell(gauge(name+"missCount", now.Lookups-now.Hits))
		tell(gauge(name+"expiredCount", now.Expired))
		tell(gauge(name+"evacuateCount", now.WithoutRoom))
		tell(gauge(name+"overwriteCount", now.Overwritten))
		tell(gauge(name+"averageAccessTime", 0))
	}
}

// runtimeSource tells how the policy directory was read, if there is one.
func runtimeSource(policies *reload.Loader) statsd.Source {
	return func(tell func(statsd.Metric)) {
		if now := policies.Reads(); now.Attempts > 0 {
			loads(tell, "runtime", now.Attempts, now.Failures, now.Files)
		}
	}
}

// certificatesSource tells how the certificates of gRPC were read, if it has any.
func certificatesSource(source *certificates.Source) statsd.Source {
	return func(tell func(statsd.Metric)) {
		if source != nil {
			now := source.Loads()
			loads(tell, "certs", now.Attempts, now.Failures, now.Files)
		}
	}
}

func loads(tell func(statsd.Metric), name string, attempts, failures uint64, files int) {
	tell(count(name+".load_attempts", attempts))
	tell(count(name+".load_failures", failures))
	tell(gauge(name+".num_values", uint64(files)))
}

// reservedTags are names that a library of envoyproxy/ratelimit's keeps for
// itself.
var reservedTags = map[string]bool{
	"asg": true, "az": true, "backend": true, "canary": true, "envoyservice": true, "facet": true, "host": true,
	"period": true, "project": true, "region": true, "shard": true, "source": true, "window": true,
}

// reservedSource tells how many of the tags have such a name, if any has.
func reservedSource(tags map[string]string) statsd.Source {
	n := uint64(0)
	for name := range tags {
		if reservedTags[name] {
			n++
		}
	}
	return func(tell func(statsd.Metric)) {
		if n > 0 {
			tell(statsd.Metric{Name: "reserved_tag", Value: float64(n), Bare: true})
		}
	}
}

// otherMethods are the unary methods that [newGRPC] serves besides
// ShouldRateLimit.
func otherMethods() []string {
	var names []string
	for _, method := range healthpb.Health_ServiceDesc.Methods {
		names = append(names, method.MethodName)
	}
	return names
}

// countOthers is an interceptor that counts calls of them.
func (s *stats) countOthers(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if s.tally == nil {
		return handler(ctx, request)
	}
	begin := time.Now()
	response, err := handler(ctx, request)
	s.tally.Called(path.Base(info.FullMethod), time.Since(begin))
	return response, err
}
