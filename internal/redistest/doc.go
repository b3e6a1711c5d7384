// Package redistest starts real Redis servers for tests, and memcached.
//
// Each function starts one shape: [Start] a single server (with a password, an
// ACL user, TLS, or on a unix socket), [StartSentinel] a master, a replica and
// a sentinel, [StartCluster] a Cluster of three masters, with replicas if asked,
// [StartMemcached] a memcached. Passwords of each can change while it runs. All of
// them listen on free loopback ports, keep nothing on disk that a later run could
// see, and are ended with the test, whatever ends the test.
//
// A test fails, and is never skipped, where the server's program is not installed.
package redistest
