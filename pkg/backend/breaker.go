package backend

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"
)

const (
	// tripAfter is how many calls must fail one after another for a server to
	// be left alone. As many as may be under way fail by one short stall; one
	// that fails twice that many has no short one.
	tripAfter = 2 * maxRunning

	// A server is also left alone when of at least tripCalls in the last
	// tripWindow half have failed.
	tripCalls  = 20
	tripWindow = 2 * time.Second

	// openFor is how long it is left alone before the next probes.
	openFor = 250 * time.Millisecond

	// probes is how many calls may then be under way; when as many have
	// succeeded, all is as before.
	probes = 3

	// fairWait is how long a call must have waited at least for its time-out to
	// say something of the server, and not of a caller in a hurry.
	fairWait = 5 * time.Millisecond
)

// errNoVerdict tells a breaker that a call says nothing about its server.
var errNoVerdict = errors.New("no verdict")

// breaker keeps calls from a server that fails or hangs: after failures in a
// row it refuses all at once, and then lets a few through to see. A nil breaker
// lets all through. There is one for each address, so that a new master begins
// with a good name.
type breaker struct {
	circuit *gobreaker.CircuitBreaker[struct{}]
	budget  time.Duration // what takes longer has failed

	usual  atomic.Int64          // how long a call takes, smoothed; nanoseconds
	last   atomic.Pointer[error] // why the latest call failed
	shut   atomic.Pointer[error] // what it refuses with; nil: closed
	failed atomic.Int64          // when the latest call failed; Unix nanoseconds
}

// newBreaker returns a closed breaker. address is for messages; it may be
// empty.
func newBreaker(address string, budget time.Duration, turns transitions, log *slog.Logger) *breaker {
	b := &breaker{budget: budget}
	if address != "" {
		log = log.With("server", address)
	}
	b.circuit = gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		MaxRequests:  probes,
		Interval:     tripWindow,
		BucketPeriod: tripWindow / 10,
		Timeout:      openFor,
		ReadyToTrip:  readyToTrip,
		IsExcluded:   func(err error) bool { return err == errNoVerdict }, //nolint:errorlint // it is never wrapped
		OnStateChange: func(_ string, from, to gobreaker.State) {
			turns.to[to].Inc()
			b.turn(turns.store, from, to, log)
		},
	})
	return b
}

func readyToTrip(c gobreaker.Counts) bool {
	return c.ConsecutiveFailures >= tripAfter ||
		c.TotalSuccesses+c.TotalFailures >= tripCalls && c.TotalFailures >= c.TotalSuccesses
}

// turn takes note of a new state. The log has the beginning and the end, not
// each probe.
func (b *breaker) turn(store string, from, to gobreaker.State, log *slog.Logger) {
	switch {
	case to == gobreaker.StateClosed:
		b.shut.Store(nil)
		log.Info(store + " answers again: the circuit breaker is closed")
	case from == gobreaker.StateClosed:
		reason := *b.last.Load()
		log.Warn(store+" fails: the circuit breaker is open", "reason", reason)
		fallthrough
	case to == gobreaker.StateOpen:
		err := fmt.Errorf("%w: the circuit breaker is open after: %v", ErrUnavailable, *b.last.Load()) //nolint:errorlint // it is of another kind
		b.shut.Store(&err)
	}
}

// refusal returns why no call may be made now; nil: one may. It costs nothing
// while all is well.
func (b *breaker) refusal() error {
	if b == nil {
		return nil
	}
	err := b.shut.Load()
	if err == nil || b.circuit.State() != gobreaker.StateOpen {
		return nil
	}
	return *err
}

// do makes a call, or returns why it may not be made now. judge is what the
// call says of the server: nil, errNoVerdict, or why it failed.
func (b *breaker) do(call func() error) error {
	if b == nil {
		_ = call() // nobody judges it
		return nil
	}
	_, err := b.circuit.Execute(func() (struct{}, error) {
		began := time.Now()
		err := call()
		return struct{}{}, b.judge(err, time.Since(began))
	})
	if err == gobreaker.ErrOpenState || err == gobreaker.ErrTooManyRequests { //nolint:errorlint // they come as they are
		if shut := b.shut.Load(); shut != nil {
			return *shut
		}
		return ErrUnavailable // it has closed this moment
	}
	return nil
}

// note takes note of what came of something that was done without asking, since
// an instant.
func (b *breaker) note(err error, began time.Time) {
	if err == nil && b.shut.Load() == nil {
		return // as always
	}
	took := time.Since(began)
	_, _ = b.circuit.Execute(func() (struct{}, error) { return struct{}{}, b.judge(err, took) }) // who asks is told elsewhere
}

// judge says what a call that took so long says of the server.
func (b *breaker) judge(err error, took time.Duration) error {
	switch {
	case err == nil && took <= b.budget:
		usual := b.usual.Load()
		b.usual.Store(usual + (int64(took)-usual)/8)
		return nil
	case err == nil:
		err = fmt.Errorf("an answer took %v, more than %v", took.Round(time.Millisecond), b.budget)
	case errors.Is(err, errNoVerdict), errors.Is(err, context.Canceled), isTimeout(err) && took < b.fair():
		return errNoVerdict
	}
	reason := err // not err itself, which would then cost each call an allocation
	b.last.Store(&reason)
	b.failed.Store(time.Now().UnixNano())
	return err
}

// fair is how long a call must have waited for its time-out to count.
func (b *breaker) fair() time.Duration {
	return min(b.budget/2, max(fairWait, 2*time.Duration(b.usual.Load())))
}

// forgetAfter is how long after its last failure a server that is no longer
// asked counts as shut.
const forgetAfter = 10 * time.Second

// isShut reports whether calls are refused, or would be if there were any.
func (b *breaker) isShut() bool {
	return b.shut.Load() != nil && time.Since(time.Unix(0, b.failed.Load())) < forgetAfter
}

// breakersShut is how many servers' breakers are shut.
func (r *Redis) breakersShut() int {
	n := 0
	r.lanes.Range(func(_, l any) bool {
		if l.(*lane).breaker.isShut() {
			n++
		}
		return true
	})
	return n
}
