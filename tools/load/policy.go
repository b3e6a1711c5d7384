package main

import (
	"fmt"

	"github.com/ratelimitd/ratelimitd/pkg/descriptors"
)

// The keys of descriptors that are asked for, each with a limit of its own.
const (
	ample = "user"   // is never over, and always in use once it was asked for
	spent = "tight"  // is over after the warm-up
	usual = "client" // is in use for minutes after it was asked for once
)

// manyRequests are more than a run can ask for.
const manyRequests = 1_000_000_000

// policy is the file that ratelimitd gets. Nothing expires while it is
// measured: a bucket that fills up between two requests would cost less.
func policy(algorithm string) string {
	limit := fmt.Sprintf("requests_per_unit: %d", manyRequests)
	switch algorithm {
	case "token_bucket", "leaky_bucket":
		limit = fmt.Sprintf("requests_per_unit: 1200, burst: %d", manyRequests)
	case "sliding_window_log":
		limit = fmt.Sprintf("requests_per_unit: %d", 1000) // each is kept
	}
	return fmt.Sprintf(`domain: %[1]s
defaults: {algorithm: %[2]s}
descriptors:
  - key: %[3]s
    rate_limit: {%[4]s, unit: hour}
  - key: %[5]s
    rate_limit: {requests_per_unit: 1, unit: year}
  - key: %[6]s
    rate_limit: {requests_per_unit: 10, unit: hour}
`, domain, algorithm, ample, limit, spent, usual)
}

// compile returns the rules of the policy.
func compile(algorithm string) (*descriptors.Rules, error) {
	return descriptors.Compile([]descriptors.File{{Name: "bench.yaml", Text: []byte(policy(algorithm))}}, descriptors.Options{})
}
