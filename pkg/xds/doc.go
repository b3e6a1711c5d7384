// Package xds takes policies from a control plane over xDS.
//
// The protocol is that of Envoy, as envoyproxy/ratelimit speaks it: aggregated
// discovery of the whole state, on one stream of gRPC. A response holds every
// resource that there is, each a ratelimit.config.ratelimit.v3.RateLimitConfig
// and that is a policy. A response is taken as a whole, and acknowledged, or
// refused as a whole, with what is wrong, and changes nothing. An empty one
// takes every policy away.
//
// What a control plane has said stays in force when it goes away. The client
// comes back after a time that doubles from one try to the next, and asks for
// everything anew: a control plane that has started again may give a version
// that it has used before to something else.
//
// What the resources mean is told by package resource.
package xds
