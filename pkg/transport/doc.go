// Package transport serves unary gRPC over HTTP/2 frames.
//
// A rate limit service is asked small questions at a high rate over few
// connections, so most of its work is reading and writing. This package reads
// what has arrived on a connection, hands all of it to the [Handler] as one
// batch, and writes all replies at once: two system calls for a batch of any
// size, and in steady state no allocation.
//
// One goroutine serves a connection: it reads, has the batch decided, writes,
// and reads again. What arrives meanwhile gathers in the socket and is the next
// batch. When deciding or writing takes longer than [Options.Takeover], another
// goroutine goes on reading, so that a slow store or a slow client holds up
// nobody else's request on the same connection (turn.go).
//
// A connection's files, in the order in which bytes pass through them:
//
//	server.go     listeners, connections, stopping
//	conn.go       the state of a connection, its reading and closing
//	turn.go       whose turn it is to read; the batch and the handler
//	frame.go      the bytes of frames
//	dispatch.go   a frame to what it means, PING, RST_STREAM, PRIORITY
//	streams.go    streams that are open, and how the others ended
//	headers.go    header blocks and the streams they open
//	head.go       what the headers of a request say
//	timeout.go    grpc-timeout
//	data.go       DATA to messages
//	settings.go   what the client sets
//	window.go     flow control, both ways
//	reply.go      replies to frames
//	hpack.go      the headers of replies
//	status.go     errors to headers
//	write.go      frames to the socket
//	patience.go   floods
//	drain.go      GOAWAY, connection age, graceful stop
//	tend.go       what time brings: idle, stalled and old connections
//	other.go      any other method, by an http.Handler (exchange.go)
//
// Any method but one goes to [Options.Other], which is what net/http knows as a
// handler; grpc.Server is one. So health watching and reflection work on the
// same connection.
package transport
