// Package xdstest starts control planes for tests.
//
// Each is a server of aggregated discovery made of go-control-plane's own
// cache and server, as that of Envoy Gateway is. It ends with the test.
package xdstest
