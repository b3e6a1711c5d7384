// Package service speaks Envoy's protocol: it turns a request into asks, and
// decisions into a reply.
//
// A request travels through the files in this order:
//
//	grpc.go      the RPC and its handler
//	codec.go     bytes to a Request, leniently (decode.go, request.go)
//	service.go   the flow: check, plan, decide, count, reply
//	plan.go      descriptors to rules, limits, counter keys and asks
//	verdict.go   decisions to the overall code, and to the limit that clients hear of
//	answer.go    decisions to one status for each descriptor
//	headers.go, problem.go, metadata.go   what else a reply may hold
//	errors.go    the only place that knows gRPC codes
//
// What a reply says of a limit is written once, when rules are loaded
// (table.go, view.go), and so are its counters found (metrics.go).
//
// Envoy lets a request through when the service answers with an error. So an
// error is only for what a wrong configuration sends; whatever a client can
// cause, in bytes, lengths, counts or costs, is counted or answered
// OVER_LIMIT.
package service
