// Package service speaks Envoy's protocol: it turns a request into asks, and
// decisions into a reply.
//
// A request travels through the files in this order:
//
//	grpc.go      the RPC and its handler
//	codec.go     bytes to a Request, leniently (decode.go, request.go)
//	service.go   the flow: check, plan, decide, answer, count
//	plan.go      descriptors to rules, limits, counter keys and asks
//	verdict.go   decisions to the overall code, and to the limit that headers speak of
//	answer.go    decisions to one status per descriptor
//	headers.go, problem.go, metadata.go   what else a reply may hold
//	metrics.go   counters
//	errors.go    the only place that knows gRPC codes
//
// Envoy lets a request through when the service answers with an error. So an
// error is only for what a wrong configuration sends; whatever a client can
// cause, in bytes, lengths, counts or costs, is counted or answered
// OVER_LIMIT.
package service
