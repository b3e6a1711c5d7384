// Package resource reads the resources of a control plane as policies.
//
// A resource is read as a policy file with the same fields would be, by the
// same code, with the same checks and messages; these begin with the name of
// the resource. What the messages of the protocol have no field for can stand
// in the metadata of a descriptor, under the key ratelimitd, with the names of
// policy files:
//
//	key: tenant
//	value: "free-*"
//	rate_limit: {requests_per_unit: 100, unit: MINUTE}
//	metadata:
//	  ratelimitd:
//	    share_threshold: true
//	    rate_limit: {algorithm: token_bucket, burst: 20}
//
// These fields are those of the descriptor, rate_limit those of its limit, and
// go before what the message says. They are not sent with answers, as the rest
// of the metadata is.
package resource
