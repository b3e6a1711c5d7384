package transport

import (
	"strconv"
	"unicode/utf8"
)

// gRPC status codes that the transport itself answers with.
const (
	codeInvalidArgument   = 3
	codeDeadlineExceeded  = 4
	codeResourceExhausted = 8
	codeUnimplemented     = 12
	codeInternal          = 13
)

// problem is why a request is answered without asking the handler.
type problem struct {
	http    int // status
	code    uint32
	message string

	// plain means that the client does not speak gRPC: it gets the message as
	// text.
	plain bool

	// identity tells the client which encodings it may use.
	identity bool
}

var (
	problemIncomplete = &problem{http: 200, code: codeInternal, message: "unexpected EOF"}
	problemNoMessage  = &problem{http: 200, code: codeInternal, message: "cardinality violation: received no request message from non-client-streaming RPC"}
	problemMessages   = &problem{http: 200, code: codeInternal, message: "cardinality violation: received multiple request messages for non-client-streaming RPC"}
	problemCompressed = &problem{http: 200, code: codeInternal, message: "grpc: compressed flag set with identity or empty encoding"}
	problemHeaders    = &problem{http: 431, code: codeResourceExhausted, message: "the headers of the request are too large"}
	problemDeadline   = &problem{http: 200, code: codeDeadlineExceeded, message: "context deadline exceeded"}
	problemPanic      = &problem{http: 200, code: codeInternal, message: "internal error"}
	problemHost       = &problem{http: 400, code: codeInternal, message: "more than one :authority or host, which must have 1 value"}
	problemNoHost     = &problem{http: 400, code: codeInternal, message: "no host or :authority header present"}
)

// maxStatus bounds grpc-message, so that headers fit into a frame whatever the
// client's settings.
const maxStatus = 4 << 10

// appendMessage appends text as a grpc-message: percent-encoded where it is not
// printable ASCII; bytes that are not UTF-8 become U+FFFD.
func appendMessage(b []byte, text string) []byte {
	const hex = "0123456789ABCDEF"
	start := len(b)
	for i := 0; i < len(text) && len(b)-start < maxStatus-12; {
		c := text[i]
		if c < utf8.RuneSelf {
			if c >= ' ' && c <= '~' && c != '%' {
				b = append(b, c)
			} else {
				b = append(b, '%', hex[c>>4], hex[c&15])
			}
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(text[i:])
		var encoded [utf8.UTFMax]byte
		for _, c := range encoded[:utf8.EncodeRune(encoded[:], r)] {
			b = append(b, '%', hex[c>>4], hex[c&15])
		}
		i += size
	}
	return b
}

// notPOST, notGRPC … say what is wrong in the words of grpc-go.
func notPOST(method string) *problem {
	return &problem{http: 405, code: codeInternal, message: "Received a HEADERS frame with :method " + strconv.Quote(shorten(method)) + " which should be POST"}
}

func notGRPC(contentType string) *problem {
	return &problem{http: 415, code: codeInvalidArgument, message: "invalid gRPC request content-type " + strconv.Quote(shorten(contentType)), plain: true}
}

func badTimeout(value string) *problem {
	return &problem{http: 400, code: codeInternal, message: "malformed grpc-timeout: " + strconv.Quote(shorten(value)) + " is " + errTimeout.Error()}
}

func unknownMethod(path string) *problem {
	return &problem{http: 200, code: codeUnimplemented, message: "unknown method " + shorten(path)}
}

func unknownEncoding(encoding string) *problem {
	return &problem{http: 200, code: codeUnimplemented, message: "grpc: Decompressor is not installed for grpc-encoding " + strconv.Quote(shorten(encoding)), identity: true}
}

func badFlag(flag byte) *problem {
	return &problem{http: 200, code: codeInternal, message: "grpc: received unexpected payload format " + strconv.Itoa(int(flag))}
}

// shorten bounds what of a client's words is said back to it.
func shorten(s string) string { return s[:min(len(s), 200)] }
