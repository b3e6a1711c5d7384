// Package backend keeps states and applies algorithms to them atomically:
// in memory, in Redis, in memcached, and with what stacks on them.
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
// processes, which all see one count; [PerSecond] is two of them. [Memcached] is
// for many processes too, and may forget. What stacks on a store is a decorator:
// [Shedding] leaves undecided what is too much for it, [KnownOver] refuses for a
// moment what it has just denied, and [FailurePolicy] answers what it did not
// decide, some of it by [Local].
//
// # Merging
//
// What costs is the way to Redis, not the decision: a script call of one ask
// costs Redis some ten times what an ask among many does. So each server has a
// lane. What is asked while it is idle leaves at once, from the caller's own
// goroutine. What is asked while a call is on its way waits, and leaves as one
// call when that is back: there is no timer, and the more there is to do the
// larger the calls become. Where the way itself is long, or a call is held up, up
// to four are under way. A merged call decides as if its requests had come one after
// another; a caller whose deadline passes leaves alone, and is not counted if its
// call has not left yet.
//
// # Circuit breakers
//
// Each lane has a breaker. When calls to a server fail one after another, by
// errors or by taking too long, what is asked of it is undecided at once, and a
// few calls each quarter of a second find out when it is back. What only
// concerns a key, a slot that moves, or a caller in a hurry is not held against
// a server. Nothing is asked of a server but by those calls and by the watch of
// its health, which also looks for what would spoil counts unseen: eviction and
// a clock that jumps.
//
// # Redis Cluster
//
// A script can charge keys of one hash slot only. Counter keys are made so that
// descriptors that begin alike share a slot, and a request whose keys all share
// one is decided in one call, all or nothing. A request whose keys lie in
// several slots is asked slot by slot, at the same time; if it turns out that
// it does not pass, what some slots have charged is given back; also when it is
// [Local] that denies it, in place of a slot that did not decide. The same holds
// for a request with limits in both Redis of a [PerSecond]. So:
//
//   - between the charge and its return, one round trip, other requests on the
//     same key may be denied that would have passed. Nobody is let through who
//     should not be;
//   - if the node or this process dies between the two, the charge stays until
//     the key refills;
//   - hits given back to a token bucket that has refilled meanwhile are lost to
//     the bucket's rim. Those of a window that is about to end are not given back,
//     as they would be taken off the next one.
//
// The metrics ratelimitd_store_undone_total and
// ratelimitd_store_undo_failed_total count what is given back and what is not, by
// who denied the request: another slot or Redis, or [Local].
package backend
