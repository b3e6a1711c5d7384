package service

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/reflection"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// rawCodec sends []byte as it is.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }
func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}
func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	return proto.Unmarshal(data.Materialize(), v.(proto.Message))
}

// askRaw sends bytes in the place of a request.
func (s *server) askRaw(t testing.TB, wire []byte) (*rlsv3.RateLimitResponse, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	response := new(rlsv3.RateLimitResponse)
	err := s.conn.Invoke(ctx, rlsv3.RateLimitService_ShouldRateLimit_FullMethodName, wire, response, grpc.ForceCodecV2(rawCodec{}))
	return response, err
}

func TestRequestsThatCannotBeRight(t *testing.T) {
	s := start(t, DefaultOptions(), overridePolicy)
	for _, row := range []struct{ name, ask, want string }{
		{"no domain", "(ovr=a) domain=", "rate limit domain must not be empty"},
		{"no descriptors", "", "rate limit descriptor list must not be empty"},
		{"no entries", "()", "descriptors[0] has no entries"},
		{"empty key", "(ovr=a =b)", "descriptors[0].entries[1] has an empty key"},
		{"one bad descriptor spoils the request", "(ovr=a)+()", "descriptors[1] has no entries"},
	} {
		_, err := s.ask(t, row.ask)
		if status.Code(err) != codes.InvalidArgument || status.Convert(err).Message() != row.want {
			t.Errorf("%s: got %v, want %s", row.name, err, row.want)
		}
	}
	if _, err := s.askRaw(t, []byte{0x0a, 0x7f}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("malformed: %v", err)
	}
	if len(s.store.states) != 0 {
		t.Error("something was counted")
	}
	if got := s.counter(t, "ratelimitd_errors_total"); got != 6 {
		t.Errorf("%v errors counted, want 6", got)
	}
	s.play(t, []step{{0, "(ovr=a)", "OK OK:0/1@1849"}})
}

func TestBytesThatAreNotUTF8AreCounted(t *testing.T) {
	s := start(t, DefaultOptions(), overridePolicy)
	ask := func(value string) string {
		response, err := s.askRaw(t, encode(&anyRequest{Domain: []byte("t"), Descriptors: []anyDescriptor{{Entries: entries("ovr", value)}}}))
		return show(response, err)
	}
	for i, row := range [][2]string{
		{"u1\xff", "OK OK:0/1@1849"}, {"u1\xff", "OVER OVER:0/1@1849"},
		{"u1\xfe", "OK OK:0/1@1849"}, {"u1", "OK OK:0/1@1849"}, {"u1\xff", "OVER OVER:0/1@1849"},
	} {
		if got := ask(row[0]); got != row[1] {
			t.Errorf("call %d, %q: got %s, want %s", i, row[0], got, row[1])
		}
	}
	wire := encode(&anyRequest{Domain: []byte("t\xff"), Descriptors: []anyDescriptor{{Entries: entries("\xff", "x")}}})
	if response, err := s.askRaw(t, wire); show(response, err) != "OK OK" {
		t.Errorf("an unknown domain of odd bytes: %s", show(response, err))
	}
}

func TestLargeRequestsAreCountedOrDenied(t *testing.T) {
	o := DefaultOptions()
	o.MaxDescriptors = 12_000
	s := start(t, o, `
domain: t
descriptors:
  - {key: k, rate_limit: {unit: hour, requests_per_unit: 10000}}
`)
	s.play(t, []step{{0, "(k=" + strings.Repeat("x", 5<<20) + ")", "OK OK:9999/10000@1849"}})
	for _, row := range []struct {
		descriptors int
		want        string
		status      string
	}{
		{10_000, "OK", "OK:0/10000@1849"},
		{12_001, "OVER", "OVER"},
		{maxStoredDescriptors + 1, "OVER", "OVER"},
	} {
		one := appendBytes(nil, 2, encodeDescriptor(&anyDescriptor{Entries: entries("k", "v")}))
		response, err := s.askRaw(t, append(appendBytes(nil, 1, []byte("t")), bytes.Repeat(one, row.descriptors)...))
		got := strings.Fields(show(response, err))
		if got[0] != row.want || got[len(got)-1] != row.status || len(response.Statuses) != min(row.descriptors, maxStoredDescriptors) {
			t.Errorf("%d descriptors: %s … %s, %d statuses", row.descriptors, got[0], got[len(got)-1], len(response.Statuses))
		}
	}
	if got := s.counter(t, "ratelimitd_too_large_requests_total"); got != 2 {
		t.Errorf("%v too large, want 2", got)
	}
}

func TestNoRulesYet(t *testing.T) {
	s := start(t, DefaultOptions(), "")
	_, err := s.ask(t, "(k=v)")
	if status.Code(err) != codes.Unavailable || status.Convert(err).Message() != "no rate limit configuration loaded" {
		t.Errorf("got %v", err)
	}
	s.SetRules(compile(t, overridePolicy))
	s.play(t, []step{{0, "(ovr=v)", "OK OK:0/1@1849"}})
}

func TestPanicIsInternalAndCounted(t *testing.T) {
	o := DefaultOptions()
	var log bytes.Buffer
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	s := start(t, o, overridePolicy)
	s.store.decided = func([]algorithm.Ask, []algorithm.Decision) { panic("a bug") }
	for range 3 {
		if _, err := s.ask(t, "(ovr=v)"); status.Code(err) != codes.Internal || strings.Contains(err.Error(), "a bug") {
			t.Fatalf("got %v", err)
		}
	}
	s.store.decided = nil
	s.play(t, []step{{0, "(ovr=w)", "OK OK:0/1@1849"}})
	if got := s.counter(t, "ratelimitd_panics_total"); got != 3 {
		t.Errorf("%v panics counted, want 3", got)
	}
	if n := strings.Count(log.String(), "a bug"); n < 1 || n > 2 {
		t.Errorf("logged %d times", n)
	}
}

func TestCallerThatStoppedWaiting(t *testing.T) {
	s := start(t, DefaultOptions(), overridePolicy)
	s.store.decided = func(_ []algorithm.Ask, out []algorithm.Decision) {
		out[0] = algorithm.Decision{Err: errStoreGone}
	}
	request := parse(t, "(ovr=v)")
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	for _, row := range []struct {
		ctx  context.Context
		want codes.Code
		why  string
	}{
		{t.Context(), codes.Unavailable, errStoreGone.Error()},
		{canceled, codes.Canceled, errStoreGone.Error()},
		{late, codes.DeadlineExceeded, "before anything was decided"},
	} {
		_, err := s.ShouldRateLimit(row.ctx, request)
		if status.Code(err) != row.want || !strings.Contains(err.Error(), row.why) {
			t.Errorf("got %v, want %v", err, row.want)
		}
	}
}

func TestTheDeadlineTravelsWithEveryAsk(t *testing.T) {
	s := start(t, DefaultOptions(), sitePolicy)
	var deadlines []time.Time
	s.store.decided = func(asks []algorithm.Ask, _ []algorithm.Decision) {
		for i := range asks {
			deadlines = append(deadlines, asks[i].Deadline)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, ctx := range []context.Context{ctx, t.Context()} {
		if _, err := s.ShouldRateLimit(ctx, parse(t, "(site=s)+(acct=u)")); err != nil {
			t.Fatal(err)
		}
	}
	want, _ := ctx.Deadline()
	if !slices.Equal(deadlines, []time.Time{want, want, {}, {}}) {
		t.Errorf("got %v", deadlines)
	}
}

// The lenient codec serves other services on the same server as well, and
// reflection knows the service although its handler is not the generated one.
func TestHealthAndReflectionOnTheSameServer(t *testing.T) {
	service, err := New(newMemory(), DefaultOptions(), nil)
	if err != nil {
		t.Fatal(err)
	}
	conn := serve(t, service, func(g *grpc.Server) {
		healthv1.RegisterHealthServer(g, health.NewServer())
		reflection.Register(g)
	})
	got, err := healthv1.NewHealthClient(conn).Check(t.Context(), &healthv1.HealthCheckRequest{})
	if err != nil || got.Status != healthv1.HealthCheckResponse_SERVING {
		t.Errorf("health: %v, %v", got, err)
	}
	stream, err := reflectionv1.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	question := &reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_FileContainingSymbol{
		FileContainingSymbol: "envoy.service.ratelimit.v3.RateLimitService",
	}}
	if err := stream.Send(question); err != nil {
		t.Fatal(err)
	}
	answer, err := stream.Recv()
	if err != nil || len(answer.GetFileDescriptorResponse().GetFileDescriptorProto()) == 0 {
		t.Errorf("reflection: %v, %v", answer, err)
	}
	stream.CloseSend()
	if _, err := stream.Recv(); err != io.EOF {
		t.Errorf("reflection ends with %v", err)
	}
}

func TestMetricsRegisterOnce(t *testing.T) {
	s := start(t, DefaultOptions(), overridePolicy)
	if _, err := New(s.store, DefaultOptions(), s.reg); err == nil || !strings.HasPrefix(err.Error(), "register the metrics of the service: ") {
		t.Errorf("got %v", err)
	}
}
