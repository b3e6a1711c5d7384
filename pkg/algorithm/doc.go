// Package algorithm decides whether hits fit a limit, given a state and an
// instant.
//
// It is pure: no clock, no I/O, no logging, no randomness. Each algorithm is
// a value of [Algorithm] that holds a Go function for stores in memory and its
// twin in Lua for Redis; tests prove that both decide alike.
//
// All arithmetic is on whole numbers below 2^53, since Lua's numbers are
// doubles. Instants are microseconds since the Unix epoch. Inside an algorithm
// time is counted in ticks of the limit: microseconds, milliseconds or
// seconds, the finest that keeps every intermediate value exact.
//
// Time never runs backwards for a key. When the clock stands before the
// instant a key has already seen, the key stands still and a retry-after
// includes the wait. A key more than one window ahead of the clock keeps its
// count and is brought back to now: a clock that jumped forward and back
// stalls a key for one window at most, and buys nobody a second limit.
package algorithm
