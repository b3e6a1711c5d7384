package service

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
	"github.com/ratelimitd/ratelimitd/pkg/descriptors"
)

// memory is a small store that works: a map, a lock, and a clock that tests
// set.
type memory struct {
	mu     sync.Mutex
	now    time.Time
	states map[string]*algorithm.State

	// decided, if not nil, may change the decisions of a call, as a store in
	// trouble would.
	decided func(asks []algorithm.Ask, out []algorithm.Decision)
}

func newMemory() *memory {
	return &memory{
		now:    time.Date(2026, 12, 1, 3, 29, 11, 0, time.UTC),
		states: make(map[string]*algorithm.State),
	}
}

func (m *memory) sleep(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = m.now.Add(d)
}

func (m *memory) Decide(_ context.Context, asks []algorithm.Ask, out []algorithm.Decision) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for from := 0; from < len(asks); {
		to := from
		for to < len(asks) && asks[to].Group == asks[from].Group {
			to++
		}
		m.decideGroup(asks[from:to], out[from:to])
		from = to
	}
	if m.decided != nil {
		m.decided(asks, out)
	}
}

func (m *memory) decideGroup(asks []algorithm.Ask, out []algorithm.Decision) {
	now := m.now.UnixMicro()
	states := make([]*algorithm.State, len(asks))
	for i := range asks {
		key := string(asks[i].Key)
		if m.states[key] == nil {
			m.states[key] = new(algorithm.State)
		}
		states[i] = m.states[key]
	}
	algorithm.Decide(now, asks, states, out)
	for i := range asks {
		if asks[i].Limit.Expiry(states[i]) <= now {
			delete(m.states, string(asks[i].Key))
		}
	}
}

var errStoreGone = errors.New("the store is gone")

// server is a service behind a real grpc server, over a connection in memory.
type server struct {
	*Service
	store  *memory
	client rlsv3.RateLimitServiceClient
	conn   *grpc.ClientConn
	reg    *prometheus.Registry
}

// compile returns the rules of one policy file.
func compile(t testing.TB, policy string) *descriptors.Rules {
	t.Helper()
	rules, err := descriptors.Compile([]descriptors.File{{Name: "test.yaml", Text: []byte(policy)}}, descriptors.Options{})
	if err != nil {
		t.Fatalf("policy: %v", err)
	}
	return rules
}

// hiding returns the rules of one policy file, which hide values.
func hiding(t testing.TB, policy string) *descriptors.Rules {
	t.Helper()
	rules, err := descriptors.Compile([]descriptors.File{{Name: "test.yaml", Text: []byte(policy)}}, descriptors.Options{Hiding: descriptors.NewHiding([]byte("0123456789abcdef"))})
	if err != nil {
		t.Fatalf("policy: %v", err)
	}
	return rules
}

// start serves a policy; an empty one is none at all.
func start(t testing.TB, o Options, policy string) *server {
	t.Helper()
	s := &server{store: newMemory(), reg: prometheus.NewRegistry()}
	var err error
	if s.Service, err = New(s.store, o, s.reg); err != nil {
		t.Fatal(err)
	}
	if policy != "" {
		s.SetRules(compile(t, policy))
	}
	s.conn = serve(t, s.Service, func(*grpc.Server) {})
	s.client = rlsv3.NewRateLimitServiceClient(s.conn)
	return s
}

// serve runs a grpc server of the service, and of what more is registered, and
// returns a connection to it.
func serve(t testing.TB, s *Service, register func(*grpc.Server)) *grpc.ClientConn {
	t.Helper()
	g := grpc.NewServer(s.ServerOptions()...)
	s.Register(g)
	register(g)
	listener := bufconn.Listen(1 << 20)
	done := make(chan error, 1)
	go func() { done <- g.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:///memory", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
		grpc.WithDefaultCallOptions(grpc.MaxCallSendMsgSize(1<<30), grpc.MaxCallRecvMsgSize(1<<30)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		g.Stop()
		if err := <-done; err != nil && !errors.Is(err, grpc.ErrServerStopped) { // a test may end before it began
			t.Errorf("serve: %v", err)
		}
	})
	return conn
}

// answer answers a request in wire form, as one that came alone.
func (s *Service) answer(t testing.TB, wire []byte) (*rlsv3.RateLimitResponse, error) {
	t.Helper()
	batch := []Exchange{{Request: wire}}
	s.Answer(t.Context(), batch)
	return replyOf(t, &batch[0])
}

// replyOf reads what an exchange was answered.
func replyOf(t testing.TB, e *Exchange) (*rlsv3.RateLimitResponse, error) {
	t.Helper()
	if e.Err != nil {
		return nil, e.Err
	}
	response := new(rlsv3.RateLimitResponse)
	if err := proto.Unmarshal(e.Reply, response); err != nil {
		t.Fatalf("reply %x: %v", e.Reply, err)
	}
	return response, nil
}

// ask sends a request as [parse] reads it.
func (s *server) ask(t testing.TB, text string) (*rlsv3.RateLimitResponse, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return s.client.ShouldRateLimit(ctx, parse(t, text))
}

// step is one event of a history.
type step struct {
	sleep time.Duration // before it
	ask   string
	want  string // as [show] writes it
}

// play plays a history in order.
func (s *server) play(t *testing.T, steps []step) {
	t.Helper()
	for i, step := range steps {
		s.store.sleep(step.sleep)
		response, err := s.ask(t, step.ask)
		if got := show(response, err); got != step.want {
			t.Fatalf("step %d, %s:\ngot  %s\nwant %s", i, step.ask, got, step.want)
		}
	}
}

// parse reads a request of domain t: descriptors in parentheses with entries
// and options, then options of the request.
//
//	(site=s)+(acct=u1) hits=8
//	(a=1 b=2)+(c=3 hits=0) domain=other
//	(k=v hits=4 back)             is_negative_hits
//	(k=v limit=5/DAY*2)           override
func parse(t testing.TB, text string) *rlsv3.RateLimitRequest {
	t.Helper()
	r := &rlsv3.RateLimitRequest{Domain: "t"}
	var d *commonv3.RateLimitDescriptor
	for word := range strings.FieldsSeq(strings.NewReplacer("(", " ( ", ")", " ) ", "+", " ").Replace(text)) {
		key, value, _ := strings.Cut(word, "=")
		switch {
		case word == "(":
			d = &commonv3.RateLimitDescriptor{}
			r.Descriptors = append(r.Descriptors, d)
		case word == ")":
			d = nil
		case key == "domain":
			r.Domain = value
		case key == "hits" && d == nil:
			r.HitsAddend = uint32(number(t, value))
		case key == "hits":
			d.HitsAddend = wrapperspb.UInt64(number(t, value))
		case key == "back":
			d.IsNegativeHits = true
		case key == "limit":
			d.Limit = parseOverride(t, value)
		default:
			d.Entries = append(d.Entries, &commonv3.RateLimitDescriptor_Entry{Key: key, Value: value})
		}
	}
	return r
}

func parseOverride(t testing.TB, text string) *commonv3.RateLimitDescriptor_RateLimitOverride {
	text, multiplier, multiplied := strings.Cut(text, "*")
	requests, unit, _ := strings.Cut(text, "/")
	o := &commonv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: uint32(number(t, requests))}
	if n, known := typev3.RateLimitUnit_value[unit]; known {
		o.Unit = typev3.RateLimitUnit(n)
	} else {
		o.Unit = typev3.RateLimitUnit(number(t, unit))
	}
	if multiplied {
		o.UnitMultiplier = wrapperspb.UInt32(uint32(number(t, multiplier)))
	}
	return o
}

func number(t testing.TB, text string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// show writes a reply: the overall code, then each status as
// code:remaining/limit@reset, without what it does not have.
func show(r *rlsv3.RateLimitResponse, err error) string {
	if err != nil {
		return status.Code(err).String()
	}
	words := []string{strings.TrimSuffix(r.OverallCode.String(), "_LIMIT")}
	for _, s := range r.Statuses {
		word := strings.TrimSuffix(s.Code.String(), "_LIMIT")
		if s.CurrentLimit != nil || s.LimitRemaining != 0 {
			word += fmt.Sprintf(":%d", s.LimitRemaining)
		}
		if l := s.CurrentLimit; l != nil {
			word += fmt.Sprintf("/%d", l.RequestsPerUnit)
		}
		if s.DurationUntilReset != nil {
			word += fmt.Sprintf("@%d", s.DurationUntilReset.Seconds)
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

// headersOf writes a reply's headers, one a line.
func headersOf(r *rlsv3.RateLimitResponse) string {
	var lines []string
	for _, h := range r.GetResponseHeadersToAdd() {
		lines = append(lines, h.Key+": "+h.Value)
	}
	return strings.Join(lines, "\n")
}
