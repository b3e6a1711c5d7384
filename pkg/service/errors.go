package service

import (
	"context"
	"errors"

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

// GRPCStatus gives the error its code on the wire; grpc looks for it.
func (e *Error) GRPCStatus() *status.Status {
	code := [...]codes.Code{
		Internal:         codes.Internal,
		InvalidArgument:  codes.InvalidArgument,
		Unavailable:      codes.Unavailable,
		DeadlineExceeded: codes.DeadlineExceeded,
		Canceled:         codes.Canceled,
	}[e.Kind]
	return status.New(code, e.Error())
}

// notReady is the answer while there are no rules at all.
var notReady = &Error{Kind: Unavailable, Message: "no rate limit configuration loaded"}

// storeFailed is the error of a call that the store did not decide.
func storeFailed(ctx context.Context, cause error) *Error {
	kind := Unavailable
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		kind = DeadlineExceeded
	case errors.Is(ctx.Err(), context.Canceled):
		kind = Canceled
	}
	return &Error{Kind: kind, Message: "the store did not decide", Cause: cause}
}
