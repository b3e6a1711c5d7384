package compat

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/ratelimitd/ratelimitd/internal/redistest"
)

var update = flag.Bool("update", false, "write the answers in testdata anew")

// TestHistories plays the histories in testdata against the binary. Each is a text of settings, files and questions:
//
//	env NAME=value                            more environment
//	file a.yaml                               a policy file, whose text follows, indented; after the first question it is
//	                                          replaced, and waited for: with "file a.yaml refused" until the log refuses it
//	ask DOMAIN [hits N] k=v,k2=v2 [+ …]       a request, => what is answered
//	    … hits N | back N | limit N UNIT      what a descriptor has besides
//	                                          \xff in a value is a byte
//	json {…}                                  the same to /json
//	keys                                      how many counters there are
//	log WORD                                  the log has it
//
// Run with -update to write the answers, and read the difference.
func TestHistories(t *testing.T) {
	store := redistest.Start(t, redistest.Options{})
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no histories", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			awayFromTheHour()
			store.Do(t, "FLUSHALL")
			h := history{root: t.TempDir(), store: store, env: []string{"REDIS_SOCKET_TYPE=tcp", "REDIS_URL=" + store.Address}}
			got := h.play(t, string(want))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			} else if got != string(want) {
				t.Errorf("%s is answered otherwise:\n%s", file, difference(string(want), got))
			}
		})
	}
}

// awayFromTheHour waits until no window of an hour or more ends within half a minute.
func awayFromTheHour() {
	if left := time.Hour - time.Duration(time.Now().UnixNano())%time.Hour; left < 30*time.Second {
		time.Sleep(left)
	}
}

// difference shows the lines that differ.
func difference(want, got string) string {
	wants, gots := strings.Split(want, "\n"), strings.Split(got, "\n")
	var b strings.Builder
	for i := range min(len(wants), len(gots)) {
		if wants[i] != gots[i] {
			fmt.Fprintf(&b, "line %d\n want %s\n got  %s\n", i+1, wants[i], gots[i])
		}
	}
	return b.String()
}

// history is a text that is being played.
type history struct {
	root   string
	store  *redistest.Server
	env    []string
	server *server // nil before the first question
}

func (h *history) play(t *testing.T, text string) string {
	t.Helper()
	var out bytes.Buffer
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i := 0; i < len(lines); i++ {
		line, _, _ := strings.Cut(lines[i], " => ")
		fmt.Fprint(&out, line)
		word, rest, _ := strings.Cut(line, " ")
		switch word {
		case "env":
			h.env = append(h.env, rest)
		case "file":
			var policy strings.Builder
			for i+1 < len(lines) && strings.HasPrefix(lines[i+1], "    ") {
				i++
				fmt.Fprintf(&out, "\n%s", lines[i])
				policy.WriteString(strings.TrimPrefix(lines[i], "    ") + "\n")
			}
			h.file(t, rest, policy.String())
		case "ask":
			fmt.Fprint(&out, " => ", h.ask(t, rest))
		case "json":
			fmt.Fprint(&out, " => ", h.post(t, rest))
		case "keys":
			fmt.Fprint(&out, " => ", h.counters(t))
		case "log":
			h.started(t)
			waitFor(t, rest+" in the log", func() bool { return strings.Contains(h.server.Log.String(), rest) })
		case "", "#":
		default:
			t.Fatalf("line %d: what is %q?", i+1, line)
		}
		fmt.Fprintln(&out)
	}
	return out.String()
}

// started returns the server, which is started at the first question.
func (h *history) started(t *testing.T) *server {
	t.Helper()
	if h.server == nil {
		env := append([]string{"LOG_LEVEL=info", "RUNTIME_ROOT=" + h.root, "RUNTIME_SUBDIRECTORY=ratelimit", "RUNTIME_WATCH_ROOT=false"}, h.env...)
		h.server = start(t, env...)
	}
	return h.server
}

// counters is how many keys Redis has, but for the one that tells how many replicas there are.
func (h *history) counters(t *testing.T) int {
	t.Helper()
	keys, ok := h.store.Do(t, "KEYS", "*").([]any)
	if !ok {
		t.Fatal("Redis has no list of keys")
	}
	return len(slices.DeleteFunc(keys, func(key any) bool { return strings.HasPrefix(fmt.Sprint(key), "{ratelimitd") }))
}

// file puts a policy file in place, and waits until the server has taken or refused it, if there is one.
func (h *history) file(t *testing.T, name, text string) {
	t.Helper()
	name, refused := strings.CutSuffix(name, " refused")
	word := "policies in force"
	if refused {
		word = "policy refused"
	}
	before := 0
	if h.server != nil {
		before = strings.Count(h.server.Log.String(), word)
	}
	write(t, filepath.Join(h.root, "ratelimit", "config", name), text)
	if h.server != nil {
		waitFor(t, word, func() bool { return strings.Count(h.server.Log.String(), word) > before })
	}
}

// ask sends a request over gRPC.
func (h *history) ask(t *testing.T, text string) string {
	t.Helper()
	domain, rest, _ := strings.Cut(text, " ")
	request := &rlsv3.RateLimitRequest{Domain: strings.Trim(domain, `"`)}
	if after, ok := strings.CutPrefix(rest, "hits "); ok {
		var n string
		n, rest, _ = strings.Cut(after, " ")
		request.HitsAddend = uint32(number(t, n))
	}
	for part := range strings.SplitSeq(rest, " + ") {
		request.Descriptors = append(request.Descriptors, descriptor(t, strings.Fields(part))...)
	}
	response, err := h.started(t).ask(t, request)
	if err != nil {
		return fmt.Sprintf("error %s: %s", status.Code(err), status.Convert(err).Message())
	}
	return told(t, response)
}

// descriptor reads a descriptor; no words are none.
func descriptor(t *testing.T, words []string) []*ratelimitv3.RateLimitDescriptor {
	t.Helper()
	if len(words) == 0 {
		return nil
	}
	d := &ratelimitv3.RateLimitDescriptor{}
	if words[0] != "nothing" {
		for pair := range strings.SplitSeq(words[0], ",") {
			key, value, _ := strings.Cut(pair, "=")
			d.Entries = append(d.Entries, entry(t, key, value))
		}
	}
	for words = words[1:]; len(words) > 1; words = words[2:] {
		n := number(t, words[1])
		switch words[0] {
		case "hits":
			d.HitsAddend = wrapperspb.UInt64(n)
		case "back":
			d.HitsAddend, d.IsNegativeHits = wrapperspb.UInt64(n), true
		case "limit":
			unit := typev3.RateLimitUnit(typev3.RateLimitUnit_value[words[2]])
			d.Limit = &ratelimitv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: uint32(n), Unit: unit}
			words = words[1:]
		default:
			t.Fatalf("what is %q?", words[0])
		}
	}
	return []*ratelimitv3.RateLimitDescriptor{d}
}

// entry returns an entry whose value may be any bytes. Such as are not UTF-8 stand in the message as in one of Envoy's, though
// package proto would not write them.
func entry(t *testing.T, key, value string) *ratelimitv3.RateLimitDescriptor_Entry {
	t.Helper()
	value, err := strconv.Unquote(`"` + value + `"`)
	if err != nil {
		t.Fatal(err)
	}
	e := &ratelimitv3.RateLimitDescriptor_Entry{Key: key}
	if utf8.ValidString(value) {
		e.Value = value
		return e
	}
	const valueField = 2
	e.ProtoReflect().SetUnknown(protowire.AppendString(protowire.AppendTag(nil, valueField, protowire.BytesType), value))
	return e
}

func number(t *testing.T, text string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// seconds are the lengths of the units.
var seconds = map[string]int64{"SECOND": 1, "MINUTE": 60, "HOUR": 3600, "DAY": 86400, "WEEK": 604800, "MONTH": 2592000, "YEAR": 31536000}

// told writes a response on a line: the overall code, each status with what remains and its limit, headers with their values
// but for the reset, metadata. The reset is checked: from 1 second to the unit.
func told(t *testing.T, response *rlsv3.RateLimitResponse) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(response.GetOverallCode().String())
	for _, s := range response.GetStatuses() {
		fmt.Fprintf(&b, " | %s", s.GetCode())
		limit := s.GetCurrentLimit()
		switch {
		case limit == nil && s.GetLimitRemaining() == 1<<32-1 && s.GetDurationUntilReset() == nil:
			b.WriteString(" unlimited")
		case limit == nil && s.GetLimitRemaining() == 0 && s.GetDurationUntilReset() == nil:
		default:
			fmt.Fprintf(&b, " %d of %d a %s", s.GetLimitRemaining(), limit.GetRequestsPerUnit(), limit.GetUnit())
			if limit.GetName() != "" {
				fmt.Fprintf(&b, " %q", limit.GetName())
			}
			if reset := s.GetDurationUntilReset(); reset.GetSeconds() < 1 || reset.GetSeconds() > seconds[limit.GetUnit().String()] || reset.GetNanos() != 0 {
				fmt.Fprintf(&b, " reset %v", reset)
			}
		}
	}
	for i, header := range response.GetResponseHeadersToAdd() {
		value := header.GetValue()
		if i%3 == 2 {
			value = "…"
		}
		fmt.Fprintf(&b, " | %s: %s", header.GetKey(), value)
	}
	if metadata := response.GetDynamicMetadata(); metadata != nil {
		text, err := protojson.Marshal(metadata)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, " | %s", strings.ReplaceAll(strings.ReplaceAll(string(text), ", ", ","), `": `, `":`))
	}
	return b.String()
}

// post asks /json.
func (h *history) post(t *testing.T, body string) string {
	t.Helper()
	response, err := http.Post("http://"+h.started(t).http+"/json", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	var answer rlsv3.RateLimitResponse
	if slices.Contains([]int{http.StatusOK, http.StatusTooManyRequests}, response.StatusCode) {
		if err := protojson.Unmarshal(text, &answer); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%d %s", response.StatusCode, told(t, &answer))
	}
	return fmt.Sprintf("%d %s", response.StatusCode, strings.TrimSpace(string(text)))
}
