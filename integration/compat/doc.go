// Package compat tests the built binary in the place of envoyproxy/ratelimit: its environment, its files, its answers.
//
// It holds tests only. The histories in testdata are read by people: what is asked, and what is answered.
package compat
