// Package backend keeps states and applies algorithms to them atomically:
// in memory, in Redis, and with what stacks on both.
//
// A store has one method on the path of a request:
//
//	Decide(ctx context.Context, asks []algorithm.Ask, out []algorithm.Decision)
//
// It fills out[:len(asks)] and fails for no call as a whole: a decision that
// could not be made is [algorithm.Undecided] with the reason in its Err, and
// concerns only the request it belongs to. Asks of one request are neighbours
// with the same Group. Decide is safe for concurrent use.
//
// [Memory] is for one process; its counts end with it. [Redis] is for many
// processes, which all see one count. [FailurePolicy] stacks on either and
// answers what the store did not decide.
//
// # Redis Cluster
//
// A script can charge keys of one hash slot only. Counter keys are made so that
// descriptors that begin alike share a slot, and a request whose keys all share
// one is decided in one call, all or nothing. A request whose keys lie in
// several slots is asked slot by slot, at the same time; if it turns out that
// it does not pass, what some slots have charged is given back. So:
//
//   - between the charge and its return, one round trip, other requests on the
//     same key may be denied that would have passed. Nobody is let through who
//     should not be;
//   - if the node or this process dies between the two, the charge stays until
//     the key refills;
//   - hits given back to a token bucket that has refilled meanwhile are lost to
//     the bucket's rim, and those of a window that has ended are not missed.
//
// The metrics ratelimitd_redis_undone_total and
// ratelimitd_redis_undo_failed_total count both.
package backend
