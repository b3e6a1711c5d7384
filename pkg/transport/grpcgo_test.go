package transport

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
)

// bytesCodec sends byte slices as they are.
type bytesCodec struct{}

func (bytesCodec) Name() string { return "proto" }

func (bytesCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*[]byte))}, nil
}

func (bytesCodec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

// say calls the method under test.
func say(client *grpc.ClientConn, message string, options ...grpc.CallOption) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return sayCtx(ctx, client, message, options...)
}

func sayCtx(ctx context.Context, client *grpc.ClientConn, message string, options ...grpc.CallOption) (string, error) {
	in, out := []byte(message), []byte(nil)
	err := client.Invoke(ctx, testMethod, &in, &out, append(options, grpc.ForceCodecV2(bytesCodec{}))...)
	return string(out), err
}

// grpcServer returns a server for everything but the method under test.
func grpcServer(t testing.TB) *grpc.Server {
	s, checks := grpc.NewServer(), health.NewServer()
	checks.SetServingStatus("test", healthv1.HealthCheckResponse_SERVING)
	healthv1.RegisterHealthServer(s, checks)
	reflection.Register(s)
	t.Cleanup(checks.Shutdown)
	return s
}

func connect(t testing.TB, addr string, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	options = append([]grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}, options...)
	client, err := grpc.NewClient("passthrough:"+addr, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

func TestGRPCClient(t *testing.T) {
	_, addr := start(t, Options{})
	client := connect(t, addr)
	for i := range 100 {
		want := fmt.Sprint("hello ", i)
		if got, err := say(client, want); err != nil || got != want {
			t.Fatalf("got %q, %v", got, err)
		}
	}
	var header, trailer metadata.MD
	if got, err := say(client, "", grpc.Header(&header), grpc.Trailer(&trailer)); err != nil || got != "" {
		t.Errorf("an empty message: %q, %v", got, err)
	}
	_, err := say(client, "status 9 a % text\nof two lines")
	if s := status.Convert(err); s.Code() != codes.FailedPrecondition || s.Message() != "a % text\nof two lines" {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
	defer cancel()
	if _, err := sayCtx(ctx, client, "sleep 1h"); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("got %v", err)
	}
	big := strings.Repeat("0123456789", 300_000)
	if got, err := say(client, big); err != nil || got != big {
		t.Errorf("3 MB: got %d bytes, %v", len(got), err)
	}
	if err := client.Invoke(context.Background(), "/test.Echo/Sing", new([]byte), new([]byte), grpc.ForceCodecV2(bytesCodec{})); status.Code(err) != codes.Unimplemented {
		t.Errorf("an unknown method: %v", err)
	}
}

func TestGRPCClientsInParallel(t *testing.T) {
	_, addr := start(t, Options{})
	client := connect(t, addr)
	var callers sync.WaitGroup
	for i := range 50 {
		callers.Go(func() {
			for j := range 100 {
				want := fmt.Sprint(strings.Repeat("m", i*j), " ", i, " ", j)
				if got, err := say(client, want); err != nil || got != want {
					t.Errorf("got %d bytes of %d, %v", len(got), len(want), err)
					return
				}
			}
		})
	}
	callers.Wait()
}

// Any other method works on the same connection: unary ones, streams that never
// end, streams that go both ways.
func TestOtherMethods(t *testing.T) {
	s, addr := start(t, Options{Other: grpcServer(t)})
	client := connect(t, addr)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()

	checks := healthv1.NewHealthClient(client)
	if r, err := checks.Check(ctx, &healthv1.HealthCheckRequest{Service: "test"}); err != nil || r.GetStatus() != healthv1.HealthCheckResponse_SERVING {
		t.Errorf("health: %v, %v", r, err)
	}
	if _, err := checks.Check(ctx, &healthv1.HealthCheckRequest{Service: "nobody"}); status.Code(err) != codes.NotFound {
		t.Errorf("health of nobody: %v", err)
	}
	watching, stop := context.WithCancel(ctx)
	watch, err := checks.Watch(watching, &healthv1.HealthCheckRequest{Service: "test"})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := watch.Recv(); err != nil || r.GetStatus() != healthv1.HealthCheckResponse_SERVING {
		t.Errorf("watch: %v, %v", r, err)
	}
	info, err := reflectionv1.NewServerReflectionClient(client).ServerReflectionInfo(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := info.Send(&reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{}}); err != nil {
			t.Fatal(err)
		}
		r, err := info.Recv()
		if err != nil || len(r.GetListServicesResponse().GetService()) < 2 {
			t.Errorf("reflection: %v, %v", r, err)
		}
		if got, err := say(client, "meanwhile"); err != nil || got != "meanwhile" {
			t.Errorf("got %q, %v", got, err)
		}
	}
	info.CloseSend()
	if _, err := info.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("reflection's end: %v", err)
	}
	if err := client.Invoke(ctx, "/test.Echo/Sing", new([]byte), new([]byte), grpc.ForceCodecV2(bytesCodec{})); status.Code(err) != codes.Unimplemented {
		t.Errorf("an unknown method: %v", err)
	}
	if n := s.connections(); n != 1 {
		t.Errorf("%d connections", n)
	}
	stop()
	c := s.only(t)
	waitFor(t, "the watch to end", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.others == 0 && len(c.streams) == 0
	})
}

// A server for all methods, also the one under test, which compressed requests
// go to.
func TestCompressedRequests(t *testing.T) {
	_, addr := start(t, Options{Other: grpcEcho(grpc.NewServer(grpc.ForceServerCodecV2(bytesCodec{}), grpc.MaxRecvMsgSize(8<<20)))})
	client := connect(t, addr)
	for _, message := range []string{"compressed", strings.Repeat("x", 5<<20)} {
		if got, err := say(client, message, grpc.UseCompressor(gzip.Name), grpc.MaxCallRecvMsgSize(8<<20)); err != nil || got != message {
			t.Errorf("got %d bytes, %v", len(got), err)
		}
	}
	_, addr = start(t, Options{})
	if _, err := say(connect(t, addr), "compressed", grpc.UseCompressor(gzip.Name)); status.Code(err) != codes.Unimplemented {
		t.Errorf("without another server: %v", err)
	}
}

// grpcEcho has a server answer the method under test as echo does.
func grpcEcho(s *grpc.Server) *grpc.Server {
	s.RegisterService(&grpc.ServiceDesc{ServiceName: "test.Echo", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{
		MethodName: "Say",
		Handler: func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			var in []byte
			if err := decode(&in); err != nil {
				return nil, err
			}
			call := &Call{Message: in}
			(&echo{}).Handle(ctx, []*Call{call})
			if call.Code != 0 {
				return nil, status.Error(codes.Code(call.Code), call.Status)
			}
			return &call.Reply, nil
		},
	}}}, nil)
	return s
}

// Bodies larger than all windows, both ways, through the handler for other
// methods.
func TestOtherLargeMessages(t *testing.T) {
	other := grpcEcho(grpc.NewServer(grpc.ForceServerCodecV2(bytesCodec{}), grpc.MaxRecvMsgSize(64<<20)))
	_, addr := start(t, Options{Method: "/no/method", Other: other})
	client := connect(t, addr, grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))
	var callers sync.WaitGroup
	for i := range 4 {
		callers.Go(func() {
			message := bytes.Repeat([]byte{byte('a' + i)}, 6<<20)
			if got, err := say(client, string(message)); err != nil || got != string(message) {
				t.Errorf("got %d bytes, %v", len(got), err)
			}
		})
	}
	callers.Wait()
	if _, err := say(client, "status 5 not here"); status.Code(err) != codes.NotFound || status.Convert(err).Message() != "not here" {
		t.Errorf("got %v", err)
	}
}

func TestTLS(t *testing.T) {
	s := newServer(t, Options{Other: grpcServer(t)})
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	pair := certificate(t)
	go s.Serve(tls.NewListener(plain, &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2"}}))
	t.Cleanup(s.Stop)
	pool := x509.NewCertPool()
	pool.AddCert(pair.Leaf)
	client := connect(t, plain.Addr().String(), grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: pool})))
	if got, err := say(client, "secret"); err != nil || got != "secret" {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := healthv1.NewHealthClient(client).Check(context.Background(), &healthv1.HealthCheckRequest{}); err != nil {
		t.Error(err)
	}
	s.GracefulStop(context.Background())
}

// grpc-go's clients do not notice that connections are old.
func TestGRPCClientNoticesNoAge(t *testing.T) {
	_, addr := start(t, Options{ConnectionAge: 20 * time.Millisecond, Other: grpcServer(t)})
	client := connect(t, addr)
	checks := healthv1.NewHealthClient(client)
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			for begin := time.Now(); time.Since(begin) < 500*time.Millisecond; {
				if got, err := say(client, "x"); err != nil || got != "x" {
					t.Errorf("got %q, %v", got, err)
					return
				}
				if _, err := checks.Check(context.Background(), &healthv1.HealthCheckRequest{}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	callers.Wait()
}
