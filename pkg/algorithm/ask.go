package algorithm

import (
	"sync/atomic"
	"time"
)

// Mode says what an ask does with its hits.
type Mode uint8

const (
	// Charge takes the hits if they fit. Zero hits look: they are judged like
	// any others, take nothing and write nothing.
	Charge Mode = iota
	// GiveBack returns hits that were charged before. It is always applied,
	// vetoes nothing, and never takes a key past full.
	GiveBack
	// Forced charges the hits in full whether they fit or not, and vetoes
	// nothing: it records what has already happened elsewhere.
	Forced
)

// Counting is the rule by which the asks of one request are charged.
type Counting uint8

const (
	// Precise charges all asks of a request or none: see [Decide].
	Precise Counting = iota
	// Reference charges each ask on its own, as envoyproxy/ratelimit does.
	// Windows and the log charge denied hits too, buckets do not.
	Reference
	// OnlyOver charges as Reference does if all asks of a request fit. If one
	// does not, it charges only those that do not, as envoyproxy/ratelimit does
	// where it is told to stop at the limit.
	OnlyOver
)

func (c Counting) String() string {
	return [...]string{"precise", "reference", "only_over"}[c]
}

// FailurePolicy says what becomes of an ask that the store did not decide.
type FailurePolicy uint8

const (
	// FailError answers the call with an error, so that the caller's own
	// failure mode decides.
	FailError FailurePolicy = iota
	// FailAllow answers as if the hits had fitted.
	FailAllow
	// FailDeny answers as if they had not.
	FailDeny
	// FailLocal decides in this process, by its share of the limit.
	FailLocal
)

func (p FailurePolicy) String() string {
	return [...]string{"error", "allow", "deny", "local"}[p]
}

// Priority says which asks are the first not to be put to the store when there
// are more than can be answered in time.
type Priority uint8

const (
	// PriorityDefault stands between the others.
	PriorityDefault Priority = iota
	// PriorityCritical asks are the last to be left out.
	PriorityCritical
	// PrioritySheddable asks are the first, and are then denied.
	PrioritySheddable
)

// Priorities are all of them, from the last to be left out to the first.
var Priorities = [...]Priority{PriorityCritical, PriorityDefault, PrioritySheddable}

func (p Priority) String() string {
	return [...]string{"default", "critical", "sheddable"}[p]
}

// Ask is one question to a store: do these hits fit this limit, for this key?
// It carries all that any layer on the way needs to know.
type Ask struct {
	// Key names the counter. It belongs to the caller and is only read
	// during the call.
	Key   []byte
	Limit *Limit

	// Hits is at least 0. What is more than a limit can hold is denied or
	// saturates; no number is too large.
	Hits int64
	Mode Mode

	// Shadow asks are decided and charged as if they were alone, and never
	// veto. Of the Quota asks of a request one that fits is enough.
	Shadow, Quota bool
	Counting      Counting

	// Withheld asks belong to a request that another ask, which is not among
	// these, denies: they are judged as ever, and charged only what stands
	// alone.
	Withheld bool

	// Group numbers the request within its batch. The asks of a request are
	// neighbours.
	Group int32

	// Deadline is when the answer must have been decided; zero means never.
	Deadline time.Time

	// Gone is set when the caller has stopped waiting before that. What has
	// not been charged by then need not be. It is the same for all asks of a
	// group, and nil if nobody would tell.
	Gone *atomic.Bool

	OnStoreError FailurePolicy
	Priority     Priority
}
