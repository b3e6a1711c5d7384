package service

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

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
	DefaultMaxDescriptors  = 512
	DefaultMaxRequestBytes = 16 << 20
)

// Options choose what a reply holds and how much a request may. The zero value
// answers with bare decisions; see [DefaultOptions].
type Options struct {
	Headers Headers

	// Body gives a denial a body of application/problem+json. Envoy gives it
	// to clients that speak gRPC as the text of their error.
	Body bool

	// Metadata gives replies dynamic metadata for Envoy's access log: what the
	// request said, what its rules have, and, unless Terse, what was decided.
	Metadata, Terse bool

	// Shadow answers OK whatever the statuses say.
	Shadow bool

	// Quota takes all limits for quota limits, those that requests bring
	// included, and descriptors without a limit for quotas that are left.
	Quota bool

	// AnyDescriptor takes descriptors without entries, and entries without a
	// key, from everybody. They meet no rule.
	AnyDescriptor bool

	// WindowReset has statuses and headers tell when a fixed window ends, also
	// where nothing is in use, or where waiting would not help.
	WindowReset bool

	// Budget is how long after a request has arrived its limits must have been
	// decided; what is not decided then is answered as on_store_error says. 0
	// means that only the caller's deadline counts: for stores that never wait.
	Budget time.Duration

	// MaxDescriptors is the largest number of descriptors in a request, and of
	// limits that they may meet together, at most 65,536; 0 means
	// [DefaultMaxDescriptors]. A request with more is answered OVER_LIMIT,
	// since an error would let it through, and charged nothing. While the
	// store decides one request, others wait.
	MaxDescriptors int

	// MaxRequestBytes is the largest request that [Service.ServerOptions]
	// let a server receive; 0 means [DefaultMaxRequestBytes]. grpc answers
	// a larger one with an error, so keep it well above what a proxy can
	// be made to send: its limit on headers × the number of actions.
	MaxRequestBytes int

	// Meter, if not nil, is told of what is decided and answered.
	Meter Meter

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

	batches     sync.Pool
	panicLogged atomic.Int64 // when, in Unix seconds
}

// New returns a service that asks d, and registers its metrics with reg unless
// that is nil. Until [Service.SetRules] it answers Unavailable. The error is
// that of a registerer which has metrics of these names already.
func New(d Decider, o Options, reg prometheus.Registerer) (*Service, error) {
	o.MaxDescriptors = min(cmp.Or(max(o.MaxDescriptors, 0), DefaultMaxDescriptors), maxStoredDescriptors)
	o.MaxRequestBytes = cmp.Or(max(o.MaxRequestBytes, 0), DefaultMaxRequestBytes)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	s := &Service{
		decider: d,
		options: o,
		batches: sync.Pool{New: func() any { return new(batch) }},
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
	s.table.Store(newTable(rules, s.options, s.table.Load()))
}

// ShouldRateLimit answers a single request. It is [Service.Answer] for callers
// in this process that have a message and not its bytes; the error is nil or an
// *[Error].
func (s *Service) ShouldRateLimit(ctx context.Context, request *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error) {
	wire, err := proto.Marshal(request)
	if err != nil { // for strings that are not UTF-8
		return nil, &Error{Kind: InvalidArgument, Message: malformed.Message, Cause: err}
	}
	exchange := []Exchange{{Request: wire, Strict: true, Account: accountOf(ctx)}}
	exchange[0].Deadline, _ = ctx.Deadline()
	s.Answer(ctx, exchange)
	if err := exchange[0].Err; err != nil {
		return nil, err
	}
	response := new(rlsv3.RateLimitResponse)
	if err := proto.Unmarshal(exchange[0].Reply, response); err != nil {
		return nil, &Error{Kind: Internal, Message: "malformed RateLimitResponse", Cause: err}
	}
	return response, nil
}

// admit adds a request to the batch and finds out what to ask the store for
// it, at an instant. t is nil while there are no rules.
func (s *Service) admit(b *batch, t *table, e *Exchange, now time.Time) {
	r := b.decode(e.Request)
	r.strict = e.Strict
	b.accounted = b.accounted || e.Account != nil
	r.asks = span{len(b.asks), len(b.asks)}
	if !e.TooLarge {
		r.err = b.check(r)
	}
	if r.err == nil && !e.TooLarge && !s.options.AnyDescriptor {
		r.err = b.checkEntries(r)
	}
	if r.err == nil && t == nil {
		r.err = notReady
	}
	if r.err == nil {
		r.err = e.abandoned(now)
	}
	if r.err != nil {
		return
	}
	domain := t.rules.Domain(r.domain)
	switch {
	case e.TooLarge:
		s.metrics.tooLarge.Inc()
		r.bare = rlsv3.RateLimitResponse_OVER_LIMIT
	case domain == nil:
		s.metrics.unknownDomains.Inc()
		if m := s.options.Meter; m != nil {
			m.UnknownDomain(r.domain, r.descriptors.last-r.descriptors.first)
		}
		r.bare = rlsv3.RateLimitResponse_OK
	case r.excess || r.descriptors.last-r.descriptors.first > s.options.MaxDescriptors,
		!b.plan(t, domain, r, s.options.patience(e, now), s.options.MaxDescriptors):
		s.metrics.tooLarge.Inc()
		r.bare = rlsv3.RateLimitResponse_OVER_LIMIT
	}
}

// decide has the store decide what the requests of the batch ask.
func (s *Service) decide(ctx context.Context, b *batch, t *table) {
	if len(b.asks) == 0 {
		return
	}
	b.decisions = slices.Grow(b.decisions, len(b.asks))[:len(b.asks)]
	if b.accounted {
		b.asked = time.Now()
	}
	s.decider.Decide(ctx, b.asks, b.decisions)
	if b.accounted {
		b.decided = time.Now()
	}
	b.count()
	if t.sheet != nil {
		b.report(t.sheet)
	}
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
