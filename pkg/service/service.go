package service

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
	"github.com/ratelimitd/ratelimitd/pkg/descriptors"
)

// Decider decides asks. Stores implement it, and what stacks on them.
//
// Decide fills out[:len(asks)], a decision for each ask in order. It has no
// error for the whole call: an ask that could not be decided is Undecided and
// says why. It keeps neither slice, nor the keys of the asks, after it has
// returned, and is safe for concurrent use.
type Decider interface {
	Decide(ctx context.Context, asks []algorithm.Ask, out []algorithm.Decision)
}

// DefaultMaxDescriptors and DefaultMaxRequestBytes hold where [Options] say 0.
const (
	DefaultMaxDescriptors  = 16_384
	DefaultMaxRequestBytes = 64 << 20
)

// Options choose what a reply holds and how much a request may. The zero value
// answers with bare decisions; see [DefaultOptions].
type Options struct {
	Headers Headers

	// Body gives a denial a body of application/problem+json, and that
	// content type. Clients of Envoy that speak gRPC see that content type
	// too, and may not understand the denial for it.
	Body bool

	// Metadata gives replies dynamic metadata for Envoy's access log.
	Metadata bool

	// MaxDescriptors is the largest number of descriptors in a request, at
	// most 65,536; 0 means [DefaultMaxDescriptors]. A request with more is
	// answered OVER_LIMIT, since an error would let it through.
	MaxDescriptors int

	// MaxRequestBytes is the largest request that [Service.ServerOptions]
	// let a server receive; 0 means [DefaultMaxRequestBytes]. grpc answers
	// a larger one with an error, so keep it well above what a proxy can
	// be made to send: its limit on headers × the number of actions.
	MaxRequestBytes int

	// Logger is told of panics, at most once a second; nil means
	// [slog.Default].
	Logger *slog.Logger
}

// DefaultOptions returns the options of a service that nobody configured: the
// headers RateLimit, RateLimit-Policy and Retry-After, no body, no metadata.
func DefaultOptions() Options {
	return Options{Headers: Headers{RateLimit: true, RateLimitPolicy: true, RetryAfter: true}}
}

// Service answers rate limit requests. It is safe for concurrent use.
type Service struct {
	decider Decider
	options Options
	metrics *metrics

	setting sync.Mutex // held while table changes
	table   atomic.Pointer[table]

	requests, calls sync.Pool
	panicLogged     atomic.Int64 // when, in Unix seconds
}

// New returns a service that asks d, and registers its metrics with reg unless
// that is nil. Until [Service.SetRules] it answers Unavailable. The error is
// that of a registerer which has metrics of these names already.
func New(d Decider, o Options, reg prometheus.Registerer) (*Service, error) {
	o.MaxDescriptors = min(cmp.Or(max(o.MaxDescriptors, 0), DefaultMaxDescriptors), maxStoredDescriptors)
	o.MaxRequestBytes = cmp.Or(max(o.MaxRequestBytes, 0), DefaultMaxRequestBytes)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	s := &Service{
		decider:  d,
		options:  o,
		requests: sync.Pool{New: func() any { return new(Request) }},
		calls:    sync.Pool{New: func() any { return new(call) }},
	}
	var err error
	if s.metrics, err = newMetrics(&s.table, reg); err != nil {
		return nil, fmt.Errorf("register the metrics of the service: %w", err)
	}
	return s, nil
}

// SetRules puts rules in force for the requests that begin from now on. It may
// be called at any time.
func (s *Service) SetRules(rules *descriptors.Rules) {
	s.setting.Lock()
	defer s.setting.Unlock()
	s.table.Store(newTable(rules, s.table.Load()))
}

// ShouldRateLimit answers a request. The error is nil or an *[Error]. Replies
// share messages with each other and must not be changed.
func (s *Service) ShouldRateLimit(ctx context.Context, request *Request) (response *rlsv3.RateLimitResponse, err error) {
	begin := time.Now()
	var failure *Error
	defer func() {
		if p := recover(); p != nil {
			failure = s.panicked(p)
		}
		if failure != nil {
			response, err = nil, failure
		}
		s.metrics.observe(response.GetOverallCode() == rlsv3.RateLimitResponse_OVER_LIMIT, failure, time.Since(begin))
	}()
	response, failure = s.answer(ctx, request)
	return response, nil
}

// answer is the flow of a request.
func (s *Service) answer(ctx context.Context, request *Request) (*rlsv3.RateLimitResponse, *Error) {
	if err := request.check(); err != nil {
		return nil, err
	}
	t := s.table.Load()
	if t == nil {
		return nil, notReady
	}
	domain := t.rules.Domain(request.Domain)
	if domain == nil {
		s.metrics.unknownDomains.Inc()
		return bare(len(request.Descriptors), rlsv3.RateLimitResponse_OK), nil
	}
	if request.excess || len(request.Descriptors) > s.options.MaxDescriptors {
		s.metrics.tooLarge.Inc()
		return bare(len(request.Descriptors), rlsv3.RateLimitResponse_OVER_LIMIT), nil
	}

	c := s.calls.Get().(*call)
	c.reset(request)
	c.plan(ctx, t, domain)
	if len(c.asks) > 0 {
		s.decider.Decide(ctx, c.asks, c.decisions)
	}
	for i := range c.asks {
		c.views[i].series.count(&c.asks[i], &c.decisions[i])
	}
	response, err := s.reply(ctx, c)
	if !c.large() {
		c.reset(nil)
		s.calls.Put(c)
	}
	return response, err
}

// reply turns the decisions of a call into its reply.
func (s *Service) reply(ctx context.Context, c *call) (*rlsv3.RateLimitResponse, *Error) {
	v := judge(c.asks, c.decisions)
	if v.failed {
		return nil, storeFailed(ctx, v.failure)
	}
	response := &rlsv3.RateLimitResponse{OverallCode: rlsv3.RateLimitResponse_OK, Statuses: c.statuses()}
	if v.over {
		response.OverallCode = rlsv3.RateLimitResponse_OVER_LIMIT
	}
	if v.speaker >= 0 {
		view, decision := c.views[v.speaker], &c.decisions[v.speaker]
		response.ResponseHeadersToAdd = s.options.Headers.headers(view, decision, v.over)
		if v.over && s.options.Body {
			response.RawBody = problem(view, decision)
			response.ResponseHeadersToAdd = append(response.ResponseHeadersToAdd, &corev3.HeaderValue{Key: "Content-Type", Value: problemMediaType})
		}
	}
	if s.options.Headers.Delay && !v.over {
		response.ResponseHeadersToAdd = c.addDelay(response.ResponseHeadersToAdd)
	}
	if s.options.Metadata {
		response.DynamicMetadata = c.metadata(response)
	}
	return response, nil
}

// panicked turns a panic into an error and counts it.
func (s *Service) panicked(p any) *Error {
	s.metrics.panics.Inc()
	now := time.Now().Unix()
	if last := s.panicLogged.Load(); last != now && s.panicLogged.CompareAndSwap(last, now) {
		s.options.Logger.Error("panic while handling a request", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	}
	return &Error{Kind: Internal, Message: "internal error"}
}
