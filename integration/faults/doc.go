// Package faults breaks what ratelimitd stands on while a known load runs, and compares every answer with what the rules
// allow.
//
// Its tests start real Redis servers and several ratelimitd, and stop, kill, restart, fill up, move and cut off the former. The
// rules are in the files that are no tests: history.go is what was seen, quota.go how much a limit admits, checker.go the
// verdict on a run. They are pure and have tests of their own; each protection of ratelimitd has a run without it, which the
// checker must find wrong.
package faults
