package service

import (
	"context"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
)

// Register adds the RateLimitService to g, which must have been made with
// [Service.ServerOptions] or at least with [Codec].
func (s *Service) Register(g *grpc.Server) {
	g.RegisterService(&serviceDesc, s)
}

// ServerOptions returns what a server needs for this service: the codec, the
// size of the largest request, and interceptors that turn a panic of any
// handler into an Internal error.
func (s *Service) ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ForceServerCodecV2(Codec()),
		grpc.MaxRecvMsgSize(s.options.MaxRequestBytes),
		grpc.ChainUnaryInterceptor(s.catchUnary),
		grpc.ChainStreamInterceptor(s.catchStream),
	}
}

// serviceDesc is the generated description with a handler that takes the bytes
// of a request and gives those of a reply. Its file is registered by the
// generated package, so that reflection knows it.
var serviceDesc = grpc.ServiceDesc{
	ServiceName: rlsv3.RateLimitService_ServiceDesc.ServiceName,
	HandlerType: (*any)(nil),
	Methods:     []grpc.MethodDesc{{MethodName: "ShouldRateLimit", Handler: handle}},
	Metadata:    rlsv3.RateLimitService_ServiceDesc.Metadata,
}

// handle is the RPC's handler.
func handle(server any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
	s := server.(*Service)
	exchange := new(Exchange)
	if err := decode(exchange); err != nil {
		return nil, err
	}
	arrival, _ := ctx.Value(arrivalKey{}).(Arrival)
	exchange.Arrived = arrival.At
	if arrival.Read != nil {
		arrival.Read()
	}
	if interceptor == nil {
		return s.call(ctx, exchange)
	}
	info := &grpc.UnaryServerInfo{Server: s, FullMethod: rlsv3.RateLimitService_ShouldRateLimit_FullMethodName}
	return interceptor(ctx, exchange, info, s.call)
}

// call answers an *Exchange, as a [grpc.UnaryHandler].
func (s *Service) call(ctx context.Context, exchange any) (any, error) {
	e := exchange.(*Exchange)
	e.Strict = StrictCaller(callHeaders(ctx))
	e.Account = accountOf(ctx)
	e.Deadline, _ = ctx.Deadline()
	batch := []Exchange{*e}
	s.Answer(ctx, batch)
	if err := batch[0].Err; err != nil {
		return nil, err
	}
	return &batch[0], nil
}

func (s *Service) catchUnary(ctx context.Context, request any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (response any, err error) {
	defer func() {
		if p := recover(); p != nil {
			response, err = nil, s.panicked(p)
		}
	}()
	return next(ctx, request)
}

func (s *Service) catchStream(server any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = s.panicked(p)
		}
	}()
	return next(server, stream)
}
