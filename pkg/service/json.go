package service

import rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

// RequestFromProto returns m.
//
// Deprecated: [Service.ShouldRateLimit] takes the message itself.
func RequestFromProto(m *rlsv3.RateLimitRequest) *rlsv3.RateLimitRequest { return m }
