package service

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Kind says whose fault an [Error] is.
type Kind uint8

const (
	// Internal is a fault of this program. It is the zero value.
	Internal Kind = iota

	// InvalidArgument is a request that cannot be right: no domain, no
	// descriptors. No client of Envoy can cause it.
	InvalidArgument

	// Unavailable means that the store did not decide, or that no rules are
	// loaded yet; the same request may succeed later.
	Unavailable

	// DeadlineExceeded means that the caller's time was up.
	DeadlineExceeded

	// Canceled means that the caller gave up before.
	Canceled

	kinds // the number of kinds
)

// String returns the kind as it is written in metric labels.
func (k Kind) String() string {
	return [...]string{"internal", "invalid_argument", "unavailable", "deadline_exceeded", "canceled"}[k]
}

// Error is the only error of this package's calls.
type Error struct {
	Kind    Kind
	Message string
	Cause   error // nil if there is none; part of the text
}

func (e *Error) Error() string {
	if e.Cause == nil {
		return e.Message
	}
	return e.Message + ": " + e.Cause.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Code returns the error's code on the wire.
func (e *Error) Code() codes.Code {
	return [...]codes.Code{
		Internal:         codes.Internal,
		InvalidArgument:  codes.InvalidArgument,
		Unavailable:      codes.Unavailable,
		DeadlineExceeded: codes.DeadlineExceeded,
		Canceled:         codes.Canceled,
	}[e.Kind]
}

// GRPCStatus returns the code with the text; grpc looks for it.
func (e *Error) GRPCStatus() *status.Status { return status.New(e.Code(), e.Error()) }

// malformed is the answer to what is no RateLimitRequest.
var malformed = &Error{Kind: InvalidArgument, Message: "malformed RateLimitRequest"}

// notReady is the answer while there are no rules at all.
var notReady = &Error{Kind: Unavailable, Message: "no rate limit configuration loaded"}

// late and left are the answers to a caller that does not wait for one, so that
// nothing was decided for it.
var (
	late = &Error{Kind: DeadlineExceeded, Message: "the deadline had passed before anything was decided"}
	left = &Error{Kind: Canceled, Message: "the call was canceled before anything was decided"}
)

// storeFailed is the error of a request that the store did not decide, for a
// caller that waits until the deadline.
func storeFailed(ctx context.Context, deadline time.Time, cause error) *Error {
	kind := Unavailable
	switch {
	case errors.Is(ctx.Err(), context.Canceled), errors.Is(cause, context.Canceled):
		kind = Canceled
	case errors.Is(ctx.Err(), context.DeadlineExceeded), !deadline.IsZero() && !time.Now().Before(deadline):
		kind = DeadlineExceeded
	}
	return &Error{Kind: kind, Message: "the store did not decide", Cause: cause}
}
