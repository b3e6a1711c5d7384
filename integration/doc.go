// Package integration tests ratelimitd as its users run it: the built binary behind the real Envoy, on the real Redis.
//
// It holds tests only. They start all they need on free loopback ports and end it; `make test` fetches Envoy first.
package integration
