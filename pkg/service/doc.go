// Package service speaks Envoy's protocol: it turns requests into asks, and
// decisions into replies.
//
// Requests that arrived together are answered together, from bytes to bytes;
// one that came alone is a batch of one. They travel through the files in this
// order:
//
//	exchange.go  a batch of requests and replies: the way in
//	service.go   the flow: check, plan, decide, count
//	decode.go    bytes to what a request says, leniently and without copying
//	batch.go     the memory that a batch is worked out in
//	plan.go      descriptors to rules, limits, counter keys and asks
//	verdict.go   decisions to the overall code, and to the limit that clients hear of
//	reply.go     decisions to one status for each descriptor, in wire form (wire.go)
//	headers.go, problem.go, metadata.go   what else a reply may hold
//	errors.go    the only place that knows gRPC codes
//
// grpc.go and codec.go are the same for a server of grpc-go.
//
// What is asked and said of a limit is worked out once, when rules are loaded
// (table.go, view.go, override.go), and so are its counters found (metrics.go).
//
// Envoy lets a request through when the service answers with an error. So an
// error is only for what a wrong configuration sends; whatever a client can
// cause, in bytes, lengths, counts or costs, is counted or answered
// OVER_LIMIT.
package service
