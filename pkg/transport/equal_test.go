package transport

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
)

// result is what a client hears of a call. An absent grpc-message is the same as
// an empty one: grpc-go sends that with every reply, we do not.
func (p *peer) result(id uint32) string {
	r := p.replies[id]
	if r == nil {
		return fmt.Sprint("RST_STREAM ", p.resets[id])
	}
	fields := slices.DeleteFunc(append(slices.Clone(r.headers), r.trailers...), func(f string) bool { return f == "grpc-message: " })
	return fmt.Sprintf("%s %q", strings.Join(fields, "|"), r.data)
}

// converse has a client say something and wait for the end of all streams.
func converse(t *testing.T, addr string, streams int, say func(p *peer)) map[uint32]string {
	t.Helper()
	p := dial(t, addr, window(1<<24))
	p.framer.WriteWindowUpdate(0, 1<<30)
	go func(p *peer) { // grpc-go answers some requests before they have ended
		say(p)
		p.nc.Write(p.out.Bytes())
	}(p)
	results := map[uint32]string{}
	for i := range uint32(streams) {
		id := 1 + 2*i
		p.until(fmt.Sprint("stream ", id), func() bool {
			_, reset := p.resets[id]
			return reset || p.replies[id] != nil && p.replies[id].ended
		})
		results[id] = p.result(id)
	}
	return results
}

// both starts this transport and grpc-go, which answer alike.
func both(t *testing.T) (ours, theirs string) {
	native := grpcEcho(grpc.NewServer(grpc.ForceServerCodecV2(bytesCodec{}), grpc.MaxRecvMsgSize(64<<20)))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go native.Serve(listener)
	t.Cleanup(native.Stop)
	_, ours = start(t, Options{Other: native})
	return ours, listener.Addr().String()
}

// On traffic of all kinds both give equal replies.
func TestEqualToGRPCGo(t *testing.T) {
	ours, theirs := both(t)
	for seed := range uint64(20) {
		const calls = 60
		say := func(p *peer) {
			random := rand.New(rand.NewPCG(seed, 1))
			for i := range uint32(calls) {
				randomCall(p, random, 1+2*i)
			}
		}
		a, b := converse(t, ours, calls, say), converse(t, theirs, calls, say)
		if !maps.Equal(a, b) {
			for id := range b {
				if a[id] != b[id] {
					t.Errorf("seed %d, stream %d:\nours   %.300s\ngrpc's %.300s", seed, id, a[id], b[id])
				}
			}
		}
	}
}

// randomCall sends a call as clients of gRPC do: those of Envoy, and others.
func randomCall(p *peer, random *rand.Rand, id uint32) {
	headers := requestHeaders()
	pick := func(all ...string) string { return all[random.IntN(len(all))] }
	if random.IntN(2) == 0 {
		headers = append(headers, "grpc-timeout: "+pick("20S", "1M", "99999999H", "30000m"))
	}
	if random.IntN(3) == 0 {
		headers = append(headers, "x-envoy-internal: true", "x-forwarded-for: 10.0.0."+pick("1", "2", "3"), "x-request-id: "+fmt.Sprint(random.Uint64()))
	}
	if random.IntN(3) == 0 {
		headers = append(headers, "grpc-accept-encoding: identity, deflate, gzip", "user-agent: grpc-c++/1.83.0")
	}
	if random.IntN(5) == 0 {
		headers = slices.DeleteFunc(headers, func(f string) bool { return strings.HasPrefix(f, "content-type") })
		headers = append(headers, "content-type: application/grpc+"+pick("proto", "json", "x"))
	}
	message := pick("", "hello", "status 5 not found", "status 14 50% ü\n", "status 2", "big 30000", strings.Repeat("long ", random.IntN(10000)))
	p.headers(id, false, headers...)
	for data := framed(message); ; {
		n := min(len(data), 1+random.IntN(maxFrame))
		end := n == len(data)
		p.framer.WriteDataPadded(id, end, data[:n], make([]byte, random.IntN(3)))
		if data = data[n:]; end {
			return
		}
	}
}

// What is wrong with a call is said in the same words. The exceptions are
// deliberate.
func TestEqualRefusals(t *testing.T) {
	ours, theirs := both(t)
	tests := []struct {
		name    string
		headers []string
		data    string
		ours    string // where it differs
	}{
		{name: "unknown method", headers: with(":path: /test.Echo/Sing"), data: string(framed("x")), ours: ":status: 200|content-type: application/grpc|grpc-message: unknown method Sing for service test.Echo|grpc-status: 12 \"\""},
		{name: "unknown service", headers: with(":path: /test.Nobody/Say"), data: string(framed("x")), ours: ":status: 200|content-type: application/grpc|grpc-message: unknown service test.Nobody|grpc-status: 12 \"\""},
		{name: "GET", headers: with(":method: GET"), data: string(framed("x"))},
		{name: "no authority", headers: with(":authority:"), data: string(framed("x"))},
		{name: "empty authority", headers: append([]string{":authority: "}, with(":authority:")...), data: string(framed("x"))},
		{name: "host instead", headers: with(":authority:", "host: a"), data: string(framed("x"))},
		{name: "no time", headers: with("grpc-timeout: 0n"), data: string(framed("x"))},
		{name: "no message", headers: requestHeaders()},
		{name: "half a prefix", headers: requestHeaders(), data: "\x00\x00"},
		{name: "half a message", headers: requestHeaders(), data: "\x00\x00\x00\x00\x02x"},
		{name: "two messages", headers: requestHeaders(), data: string(framed("a", "b"))},
		{name: "compressed flag", headers: requestHeaders(), data: "\x01\x00\x00\x00\x01x"},
		{name: "flag 7", headers: requestHeaders(), data: "\x07\x00\x00\x00\x01x"},
		{name: "connection header", headers: with("connection: close"), data: string(framed("x"))},
		{name: "upper case", headers: with("Upper: x"), data: string(framed("x"))},
		{name: "content-type", headers: with("content-type: text/html"), data: string(framed("x")), ours: ":status: 415|content-type: text/plain; charset=utf-8 \"invalid gRPC request content-type \\\"text/html\\\"\\n\""},
		{name: "bad timeout", headers: with("grpc-timeout: 1x"), data: string(framed("x")), ours: ":status: 400|content-type: application/grpc|grpc-status: 13|grpc-message: malformed grpc-timeout: \"1x\" is not one to eight digits and one of H, M, S, m, u, n \"\""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			say := func(p *peer) {
				p.headers(1, false, test.headers...)
				p.framer.WriteData(1, true, []byte(test.data))
			}
			a, b := converse(t, ours, 1, say)[1], converse(t, theirs, 1, say)[1]
			switch test.ours {
			case "":
				test.ours = b
			case b:
				t.Errorf("both say %s", b)
			}
			if a != test.ours {
				t.Errorf("\nours   %s\ngrpc's %s", a, b)
			}
		})
	}
}
