// Package statsd counts decisions under the names that envoyproxy/ratelimit's
// metrics have, and sends them to statsd.
//
// A [Tally] counts. The name of a rule's counters is worked out when the rule is
// loaded; only a rule that wants values of requests in its name looks it up for
// each request, among so many names and no more. A [Sender] sends what has
// changed, every few seconds.
package statsd
