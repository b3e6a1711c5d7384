// Package compat reads the environment of envoyproxy/ratelimit and turns it
// into ratelimitd's settings.
//
// [All] is the table of its variables, with the defaults that they have there
// and what becomes of each here. Nothing is read but the environment that is
// handed over, and nothing is started.
package compat
