package service

import (
	"context"
	"sync/atomic"
	"time"
)

// Exchange is one request and its reply, both in wire form.
type Exchange struct {
	// Request is a RateLimitRequest. It is only read, and only until
	// [Service.Answer] returns.
	Request []byte

	// TooLarge says that the request was longer than the transport takes. It
	// is answered OVER_LIMIT: an error would let it through.
	TooLarge bool

	// Strict says that the caller is a program, which is told of a descriptor
	// without entries; otherwise such a descriptor meets no rule. A proxy must
	// not be told: see [StrictCaller].
	Strict bool

	// Arrived is when the request had arrived whole; zero means just now.
	// [Options].Budget counts from it.
	Arrived time.Time

	// Deadline is when the caller stops waiting; zero means never.
	Deadline time.Time

	// Gone is set when the caller has stopped waiting before that. nil means
	// that nobody would tell.
	Gone *atomic.Bool

	// Account, if not nil, is filled in with what became of the request.
	Account *Account

	// Reply is what the RateLimitResponse is appended to.
	Reply []byte

	// Err is why there is no reply; nil if there is one.
	Err *Error
}

// Answer answers requests that arrived together: it sets Reply or Err of each.
// They are decided in one call, unless there are more than a thousand or very
// large ones among them, each as if it were alone, in their order. ctx should
// not end with one of them.
//
// For requests of ordinary size it allocates nothing but what a Reply lacks in
// room. After a panic, which is caught, all that were decided together have
// Err set.
func (s *Service) Answer(ctx context.Context, exchanges []Exchange) {
	for len(exchanges) > 0 {
		exchanges = exchanges[s.answerSome(ctx, exchanges):]
	}
}

// answerSome answers as many of the exchanges as are decided together, and
// returns their number.
func (s *Service) answerSome(ctx context.Context, exchanges []Exchange) (n int) {
	begin := time.Now()
	defer func() {
		if p := recover(); p != nil {
			err := s.panicked(p)
			n = max(n, 1) // what made reading panic is not read again
			for i := range exchanges[:n] {
				exchanges[i].Err = err
			}
			s.metrics.errors[err.Kind].Add(float64(n))
			s.metrics.duration[failed].observe(time.Since(begin), n)
		}
	}()
	b := s.batches.Get().(*batch)
	t := s.table.Load()
	for n < len(exchanges) && !b.full() {
		n++
		s.admit(b, t, &exchanges[n-1], begin)
	}
	s.decide(ctx, b, t)
	var results [results]int
	for i := range exchanges[:n] {
		results[s.reply(ctx, b, i, &exchanges[i])]++
	}
	if !b.large() {
		b.reset()
		s.batches.Put(b)
	}
	took := time.Since(begin)
	for result, n := range results {
		s.metrics.duration[result].observe(took, n)
	}
	if m := s.options.Meter; m != nil {
		m.Answered(took, n)
	}
	return n
}

// result is what became of a request.
type result uint8

const (
	passed result = iota
	refused
	failed
	results // the number of results
)
