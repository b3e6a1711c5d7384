// Package redistest starts real Redis servers for tests.
//
// Each function starts one shape: [Start] a single server (with a password, an
// ACL user, TLS, or on a unix socket), [StartSentinel] a master, a replica and
// a sentinel, [StartCluster] a Cluster of three masters, with replicas if asked.
// Passwords of each can change while it runs. All of them listen on free loopback
// ports, keep nothing on disk that a later run could see, and are
// ended with the test, whatever ends the test.
//
// A test fails, and is never skipped, where redis-server is not installed.
package redistest
