package transport

import (
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2/hpack"
)

// head is what the headers of a request say.
type head struct {
	method, scheme, path, authority, host string
	hasAuthority                          bool
	contentType, encoding                 string
	subtype                               string // what contentType adds to application/grpc
	timeout                               time.Duration
	hasTimeout                            bool
	contentLength                         int64 // -1: none

	other     bool     // not for Options.Handler
	problem   *problem // why the request is answered with an error; nil: nothing
	malformed bool     // it breaks HTTP/2's own rules

	malformedTrailers bool // as trailers, which have no pseudo-headers

	hosts int
	mark  any // see Options.Mark
}

const grpcType = "application/grpc"

// parseHead reads the fields of a request for a server of the given method,
// which may have a handler for others.
func parseHead(fields []hpack.HeaderField, method string, others bool) head {
	h := head{contentLength: -1}
	regular := false
	for i := range fields {
		f := &fields[i]
		switch {
		case !strings.HasPrefix(f.Name, ":"):
			regular = true
			h.field(f)
		case regular: // a pseudo-header behind a header
			h.malformed, h.malformedTrailers = true, true
		default:
			h.malformedTrailers = true
			h.pseudo(f)
		}
	}
	if h.method == "" || h.path == "" || h.scheme == "" {
		h.malformed = true
	}
	h.judge(method, others)
	return h
}

// pseudo takes in a pseudo-header, each of which there is at most once.
func (h *head) pseudo(f *hpack.HeaderField) {
	set := func(field *string) {
		if *field != "" {
			h.malformed = true
		}
		*field = f.Value
	}
	switch f.Name {
	case ":method":
		set(&h.method)
	case ":scheme":
		set(&h.scheme)
	case ":path":
		set(&h.path)
	case ":authority": // may be empty
		h.malformed = h.malformed || h.hasAuthority
		h.authority, h.hasAuthority = f.Value, true
	default:
		h.malformed = true
	}
	if !httpguts.ValidHeaderFieldValue(f.Value) {
		h.malformed = true
	}
}

// field takes in any other field.
func (h *head) field(f *hpack.HeaderField) {
	valid := validName(f.Name) && httpguts.ValidHeaderFieldValue(f.Value)
	switch f.Name {
	case "content-type":
		h.contentType = f.Value
	case "grpc-encoding":
		h.encoding = f.Value
	case "grpc-timeout":
		var err error
		if h.timeout, err = parseTimeout(f.Value); err != nil {
			h.problem = badTimeout(f.Value)
		}
		h.hasTimeout = err == nil
	case "host":
		h.host = f.Value
		h.hosts++
	case "te":
		valid = valid && f.Value == "trailers"
	case "content-length":
		n, err := strconv.ParseInt(f.Value, 10, 63)
		valid = valid && err == nil && n >= 0 && (h.contentLength < 0 || h.contentLength == n)
		h.contentLength = n
	case "connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade":
		valid = false
	}
	if !valid {
		h.malformed, h.malformedTrailers = true, true
	}
}

// validName says whether a name is a token without upper case.
func validName(name string) bool {
	if name == "" {
		return false
	}
	for i := range len(name) {
		if c := name[i]; c >= 'A' && c <= 'Z' || !httpguts.IsTokenRune(rune(c)) {
			return false
		}
	}
	return true
}

// judge decides who answers a request that HTTP/2 has nothing against, in the
// order in which grpc-go looks at it.
func (h *head) judge(method string, others bool) {
	rest, isGRPC := strings.CutPrefix(h.contentType, grpcType)
	isGRPC = isGRPC && (rest == "" || rest[0] == '+' || rest[0] == ';')
	if rest != "" && len(rest) <= 64 && isGRPC {
		h.subtype = rest
	}
	compressed := h.encoding != "" && h.encoding != "identity"
	switch {
	case h.hosts > 1:
		h.problem = problemHost
	case !isGRPC:
		h.problem = notGRPC(h.contentType)
		h.problem.plain = h.method != "HEAD"
	case h.problem != nil: // the timeout
	case !h.hasAuthority && h.hosts == 0:
		h.problem = problemNoHost
	case h.method != "POST":
		h.problem = notPOST(h.method)
	case h.path == method && !compressed:
	case others:
		h.other = true
	case h.path == method:
		h.problem = unknownEncoding(h.encoding)
	default:
		h.problem = unknownMethod(h.path)
	}
}

// tooLarge notes that the fields are incomplete because there were too many.
func (h *head) tooLarge() {
	h.malformed, h.malformedTrailers, h.other, h.problem, h.contentLength = false, false, false, problemHeaders, -1
}
