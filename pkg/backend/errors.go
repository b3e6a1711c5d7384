package backend

import (
	"context"
	"errors"
	"net"
	"os"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// The reasons for which a store does not decide, besides
// [algorithm.ErrCorrupt]. Err of a decision wraps one of them and adds detail.
var (
	// ErrUnavailable means that the store is not there, or refuses to serve.
	// What was asked has not been charged.
	ErrUnavailable = errors.New("the store is not available")

	// ErrTimeout means that the store did not answer in time. What was asked
	// may have been charged.
	ErrTimeout = errors.New("the store did not answer in time")

	// ErrLost means that the connection broke, or the answer could not be
	// read. What was asked may have been charged.
	ErrLost = errors.New("the store's answer was lost")

	// ErrFull means that the store holds as many keys as it may, all of them
	// denying, so that none can make room for a new one.
	ErrFull = errors.New("the store is full of keys that are denying")
)

// kindOf names the reason of a decision for metrics: one of errorKinds.
func kindOf(err error) string {
	switch {
	case errors.Is(err, algorithm.ErrCorrupt):
		return "corrupt"
	case errors.Is(err, ErrFull):
		return "full"
	case errors.Is(err, ErrTimeout):
		return "timeout"
	case errors.Is(err, ErrLost):
		return "lost"
	case errors.Is(err, ErrUnavailable):
		return "unavailable"
	default:
		return "other"
	}
}

// errorKinds are all names of kindOf.
var errorKinds = [...]string{"corrupt", "full", "timeout", "lost", "unavailable", "other"}

// isTimeout reports whether an error is about time that has run out.
func isTimeout(err error) bool {
	var netErr net.Error
	var late *memcache.ConnectTimeoutError
	return errors.As(err, &late) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) ||
		errors.As(err, &netErr) && netErr.Timeout()
}
