package transport

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http2"
)

// with returns the headers of a request in which some are replaced; one without
// a value is left out.
func with(changes ...string) []string {
	fields := requestHeaders()
	for _, change := range changes {
		name := change[:strings.Index(change[1:], ":")+1]
		fields = slices.DeleteFunc(fields, func(f string) bool { return strings.HasPrefix(f, name+":") })
		switch {
		case strings.HasSuffix(change, ":"):
		case name[0] == ':':
			fields = append([]string{change}, fields...)
		default:
			fields = append(fields, change)
		}
	}
	return fields
}

// What HTTP/2 allows and gRPC does not is answered.
func TestRefusedRequests(t *testing.T) {
	_, addr := start(t, Options{MaxHeaderList: 4000})
	tests := []struct {
		headers []string
		want    string // of the headers of the reply
	}{
		{with("content-type: application/grpc+proto"), ":status: 200|content-type: application/grpc+proto"},
		{with("content-type: application/grpc;charset=utf-8"), ":status: 200|content-type: application/grpc;charset=utf-8"},
		{with("te:"), ":status: 200|content-type: application/grpc"},
		{with("content-type:"), ":status: 415|content-type: text/plain; charset=utf-8"},
		{with("content-type: application/json"), ":status: 415|content-type: text/plain; charset=utf-8"},
		{with("content-type: application/grpcx"), ":status: 415|content-type: text/plain; charset=utf-8"},
		{with(":method: GET"), `:status: 405|content-type: application/grpc|grpc-status: 13|grpc-message: Received a HEADERS frame with :method "GET" which should be POST`},
		{with("grpc-timeout: 1x"), `:status: 400|content-type: application/grpc|grpc-status: 13|grpc-message: malformed grpc-timeout: "1x" is not one to eight digits and one of H, M, S, m, u, n`},
		{with(":authority:"), `:status: 400|content-type: application/grpc|grpc-status: 13|grpc-message: no host or :authority header present`},
		{with(":authority:", "host: a"), ":status: 200|content-type: application/grpc"},
		{append(with("host: a"), "host: b"), `:status: 400|content-type: application/grpc|grpc-status: 13|grpc-message: more than one :authority or host, which must have 1 value`},
		{with(":path: /test.Echo/Sing"), `:status: 200|content-type: application/grpc|grpc-status: 12|grpc-message: unknown method /test.Echo/Sing`},
		{with("grpc-encoding: identity"), ":status: 200|content-type: application/grpc"},
		{with("grpc-encoding: gzip"), `:status: 200|content-type: application/grpc|grpc-status: 12|grpc-message: grpc: Decompressor is not installed for grpc-encoding "gzip"|grpc-accept-encoding: identity`},
		{with("a: " + strings.Repeat("x", 3000)), ":status: 200|content-type: application/grpc"},
		{with("a: "+strings.Repeat("x", 3000), "b: "+strings.Repeat("x", 3000)), ":status: 431|content-type: application/grpc|grpc-status: 8|grpc-message: the headers of the request are too large"},
	}
	p := dial(t, addr)
	for i, test := range tests {
		id := uint32(1 + 2*i)
		p.headers(id, false, test.headers...)
		p.framer.WriteData(id, true, framed("x"))
		if got := strings.Join(p.reply(id).headers, "|"); got != test.want {
			t.Errorf("%q\n got %s\nwant %s", test.headers, got, test.want)
		}
	}
	p.says(1001, "still there", "still there")
}

// What gRPC does not allow in a message.
func TestRefusedMessages(t *testing.T) {
	_, addr := start(t, Options{})
	tests := []struct {
		data, want string
	}{
		{"", "13 cardinality violation: received no request message from non-client-streaming RPC"},
		{"\x00\x00", "13 unexpected EOF"},
		{"\x00\x00\x00\x00\x02x", "13 unexpected EOF"},
		{string(framed("a", "b")), "13 cardinality violation: received multiple request messages for non-client-streaming RPC"},
		{string(framed("a")) + "\x00", "13 cardinality violation: received multiple request messages for non-client-streaming RPC"},
		{"\x01\x00\x00\x00\x01x", "13 grpc: compressed flag set with identity or empty encoding"},
		{"\x07\x00\x00\x00\x01x", "13 grpc: received unexpected payload format 7"},
	}
	p := dial(t, addr)
	for i, test := range tests {
		id := uint32(1 + 4*i)
		p.headers(id, false, requestHeaders()...)
		p.framer.WriteData(id, true, []byte(test.data))
		status, text := "", ""
		for _, f := range p.reply(id).headers {
			if s, is := strings.CutPrefix(f, "grpc-status: "); is {
				status = s
			}
			if s, is := strings.CutPrefix(f, "grpc-message: "); is {
				text = s
			}
		}
		if got := status + " " + text; got != test.want {
			t.Errorf("%q: got %s, want %s", test.data, got, test.want)
		}
		p.headers(id+2, len(test.data) == 0, requestHeaders()...) // byte by byte
		for j := range len(test.data) {
			p.framer.WriteData(id+2, j == len(test.data)-1, []byte(test.data[j:j+1]))
		}
		if !slices.Equal(p.reply(id+2).headers, p.replies[id].headers) {
			t.Errorf("%q: byte by byte: %q", test.data, p.replies[id+2].headers)
		}
	}
}

// What HTTP/2 does not allow in a request ends the stream, not the connection.
func TestMalformedRequests(t *testing.T) {
	_, addr := start(t, Options{})
	tests := [][]string{
		with("Upper: x"),
		with("na me: x"),
		append(requestHeaders(), ": an empty name"),
		with("a: b\x00"),
		with("a: b\nc"),
		with("te: gzip"),
		with("connection: close"),
		with("keep-alive: 1"),
		with("proxy-connection: 1"),
		with("transfer-encoding: chunked"),
		with("upgrade: h2c"),
		with(":method:"),
		with(":scheme:"),
		with(":path:"),
		with(":unknown: x"),
		append(requestHeaders(), ":path: /twice"),
		append([]string{":method: POST"}, requestHeaders()...),
		append([]string{":authority: "}, requestHeaders()...),
		append([]string{"a: b"}, requestHeaders()...),
		with("content-length: 1"),
		with("content-length: x"),
		with("content-length: -1"),
		append(with("content-length: 6"), "content-length: 7"),
	}
	p := dial(t, addr)
	for i, headers := range tests {
		id := uint32(1 + 2*i)
		p.headers(id, false, headers...)
		p.framer.WriteData(id, true, framed("x"))
		p.flush()
		p.until("RST_STREAM", func() bool { return p.resets[id] != 0 || p.replies[id] != nil })
		if p.resets[id] != http2.ErrCodeProtocol {
			t.Errorf("%q: reset %v, reply %v", headers, p.resets[id], p.replies[id])
		}
	}
	p.headers(1001, false, with("content-length: 6")...)
	p.framer.WriteData(1001, true, framed("x"))
	if got := p.reply(1001).message(); got != "x" {
		t.Errorf("got %q", got)
	}
}

// Trailers end a request, and mean nothing.
func TestTrailers(t *testing.T) {
	_, addr := start(t, Options{})
	p := dial(t, addr)
	p.headers(1, false, requestHeaders()...)
	p.framer.WriteData(1, false, framed("x"))
	p.headers(1, true, "some: trailer")
	if got := p.reply(1).message(); got != "x" {
		t.Errorf("got %q", got)
	}
	for i, trailers := range [][]string{{":path: /x"}, {"Upper: x"}, {"connection: close"}} {
		id := uint32(3 + 2*i)
		p.headers(id, false, requestHeaders()...)
		p.framer.WriteData(id, false, framed("x"))
		p.headers(id, true, trailers...)
		p.wasReset(id, http2.ErrCodeProtocol)
	}
}

func TestParseTimeout(t *testing.T) {
	tests := []struct{ text, want string }{
		{"20m", "20ms"}, {"1H", "1h0m0s"}, {"2M", "2m0s"}, {"3S", "3s"}, {"4u", "4µs"}, {"5n", "5ns"}, {"00000000n", "0s"},
		{"99999999S", "27777h46m39s"}, {"99999999H", "2562047h47m16.854775807s"},
		{"", "error"}, {"m", "error"}, {"1", "error"}, {"1s", "error"}, {"-1m", "error"}, {"+1m", "error"}, {"1.5S", "error"}, {"123456789n", "error"}, {" 1m", "error"}, {"1 m", "error"},
	}
	for _, test := range tests {
		d, err := parseTimeout(test.text)
		got := d.String()
		if err != nil {
			got = "error"
		}
		if got != test.want {
			t.Errorf("%q: %s, want %s", test.text, got, test.want)
		}
	}
}

func TestStatusMessage(t *testing.T) {
	tests := []struct{ text, want string }{
		{"plain text~ !", "plain text~ !"},
		{"100%", "100%25"},
		{"a\r\nb\x00\x7f", "a%0D%0Ab%00%7F"},
		{"é", "%C3%A9"},
		{"\xff", "%EF%BF%BD"},
	}
	for _, test := range tests {
		if got := string(appendMessage(nil, test.text)); got != test.want {
			t.Errorf("%q: %q, want %q", test.text, got, test.want)
		}
	}
	if n := len(appendMessage([]byte("before"), strings.Repeat("é", maxStatus))); n > maxStatus+6 {
		t.Errorf("%d bytes", n)
	}
}
