package integration

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/proto"

	"github.com/ratelimitd/ratelimitd/internal/redistest"
)

// At three times what Redis can decide, as much is decided as before; what is critical is, what is sheddable is refused; all
// is answered in time; and neither memory nor goroutines grow.
func TestOverload(t *testing.T) {
	const (
		budget = 150 * time.Millisecond // and Redis is slow by as much
		delay  = 15 * time.Millisecond
	)
	proxy := holdBetween(t, redistest.Start(t, redistest.Options{}).Address)
	proxy.delay = delay
	server := serve(t, policyDir(t, priorityPolicies), "RATELIMITD_STORE=redis", "RATELIMITD_REDIS_URL=redis://"+proxy.address,
		fmt.Sprint("RATELIMITD_STORE_TIMEOUT=", budget))

	bears := server.flood(t, []string{"critical"}, flood{inFlight: 96, lasts: 3 * time.Second})
	saturated := bears.rate("critical")
	t.Logf("Redis decides %.0f requests a second", saturated)
	before := server.sample(t)

	stop, watched := make(chan struct{}), make(chan []resources)
	go func() { watched <- server.watch(t, stop) }()
	// A fifth is critical: three fifths of what can be decided.
	got := server.flood(t, []string{"critical", "default", "default", "sheddable", "sheddable"}, flood{rate: 3 * saturated, lasts: 5 * time.Second})
	close(stop)
	seen := <-watched

	for _, priority := range []string{"critical", "default", "sheddable"} {
		n := got.of[priority]
		t.Logf("%-9s sent %5d, decided %5d, refused %5d, error %5d", priority, n.sent, n.decided.Load(), n.refused.Load(), n.failed.Load())
		if answered := n.decided.Load() + n.refused.Load() + n.failed.Load(); answered != int64(n.sent) {
			t.Errorf("%s: %d of %d answered", priority, answered, n.sent)
		}
	}
	critical, ordinary, sheddable := got.of["critical"], got.of["default"], got.of["sheddable"]
	if critical.part() < .6 {
		t.Errorf("%.0f %% of what is critical was decided", 100*critical.part())
	}
	if sheddable.part() > critical.part()/2 || sheddable.refused.Load() == 0 || sheddable.failed.Load() > 0 {
		t.Errorf("%.0f %% of what is sheddable was decided", 100*sheddable.part())
	}
	if ordinary.refused.Load()+critical.refused.Load() > 0 {
		t.Error("what is not sheddable was refused")
	}
	if total := got.rate("critical") + got.rate("default") + got.rate("sheddable"); total < saturated/2 {
		t.Errorf("%.0f requests a second are decided when %.0f come, but %.0f when no more come", total, 3*saturated, saturated)
	}
	got.took.within(t, budget)
	if shed := server.metric(t, `ratelimitd_shed_total{priority="sheddable"}`); shed != fmt.Sprint(sheddable.refused.Load()) {
		t.Errorf("%s sheddable requests are counted as shed, %d were refused", shed, sheddable.refused.Load())
	}
	worst := resources{}
	for _, r := range seen {
		worst.goroutines, worst.memory = max(worst.goroutines, r.goroutines), max(worst.memory, r.memory)
	}
	t.Logf("goroutines %.0f before, at most %.0f; memory %.0f MB before, at most %.0f MB",
		before.goroutines, worst.goroutines, before.memory/1e6, worst.memory/1e6)
	if worst.goroutines > 20*floodConnections+100 || worst.memory > before.memory+100e6 {
		t.Error("too many, or too much")
	}
}

const priorityPolicies = `
domain: edge
descriptors:
  - {key: critical, priority: critical, rate_limit: {requests_per_unit: 1000000000, window: 100h}}
  - {key: default, rate_limit: {requests_per_unit: 1000000000, window: 100h}}
  - {key: sheddable, priority: sheddable, rate_limit: {requests_per_unit: 1000000000, window: 100h, on_store_error: allow}}
`

// resources are what the process takes.
type resources struct{ goroutines, memory float64 }

func (s *ratelimitd) sample(t *testing.T) resources {
	t.Helper()
	text := s.metrics(t)
	value := func(series string) float64 {
		_, after, _ := strings.Cut(text, "\n"+series+" ")
		line, _, _ := strings.Cut(after, "\n")
		n, err := strconv.ParseFloat(line, 64)
		if err != nil {
			t.Errorf("%s: %v", series, err)
		}
		return n
	}
	return resources{value("go_goroutines"), value("process_resident_memory_bytes")}
}

// watch takes samples until stop is closed.
func (s *ratelimitd) watch(t *testing.T, stop chan struct{}) []resources {
	var seen []resources
	for {
		select {
		case <-stop:
			return seen
		case <-time.After(100 * time.Millisecond):
			seen = append(seen, s.sample(t))
		}
	}
}

// flood is a load of many requests, each with limits enough that few of them are a call of Redis.
type flood struct {
	rate     float64 // in a second, whether others are answered or not; 0: as many as inFlight allows
	inFlight int     // without a rate
	lasts    time.Duration
}

const (
	floodConnections = 32
	floodDescriptors = 16
)

// floodResult is what became of a flood.
type floodResult struct {
	of    map[string]*floodCount // by priority
	took  timings
	lasts time.Duration
}

type floodCount struct {
	sent                     int
	decided, refused, failed atomic.Int64
}

// part is the part that was decided.
func (n *floodCount) part() float64 { return float64(n.decided.Load()) / float64(n.sent) }

// rate is how many of a priority were decided in a second.
func (r *floodResult) rate(priority string) float64 {
	return float64(r.of[priority].decided.Load()) / r.lasts.Seconds()
}

// flood sends a load and waits for the answers. The priorities take turns.
func (s *ratelimitd) flood(t *testing.T, priorities []string, f flood) *floodResult {
	t.Helper()
	result := &floodResult{of: map[string]*floodCount{}, lasts: f.lasts}
	for _, p := range priorities {
		result.of[p] = &floodCount{}
	}
	var lines []*floodLine
	for range floodConnections {
		lines = append(lines, openFlood(t, s.grpc, priorities, result, f.inFlight/floodConnections))
	}
	began := time.Now()
	for sent := 0; time.Since(began) < f.lasts; time.Sleep(time.Millisecond) {
		due := int(f.rate * time.Since(began).Seconds())
		for ; f.rate > 0 && sent < due; sent++ {
			lines[sent%len(lines)].send(t, sent)
		}
		for i, l := range lines {
			for f.rate == 0 && l.room() {
				l.send(t, i)
			}
			l.flush(t)
		}
	}
	for _, l := range lines {
		waitFor(t, 20*time.Second, "all answers", l.idle)
		l.nc.Close()
	}
	return result
}

// floodLine is one connection.
type floodLine struct {
	nc         net.Conn
	out        bytes.Buffer
	framer     *http2.Framer
	headers    []byte
	messages   [][]byte // by priority, with their prefixes
	priorities []string
	result     *floodResult
	most       int
	next       uint32

	mu   sync.Mutex
	open map[uint32]floodCall // guarded by mu
}

type floodCall struct {
	count *floodCount
	sent  time.Time
}

func openFlood(t *testing.T, address string, priorities []string, result *floodResult, inFlight int) *floodLine {
	t.Helper()
	nc, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	l := &floodLine{nc: nc, priorities: priorities, result: result, most: inFlight, next: 1, open: map[uint32]floodCall{}}
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, h := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", rateLimitPath}, {":authority", "test"},
		{"content-type", "application/grpc"}, {"te", "trailers"}} {
		_ = encoder.WriteField(hpack.HeaderField{Name: h[0], Value: h[1], Sensitive: true}) // to memory
	}
	l.headers = block.Bytes()
	for _, p := range priorities {
		var pairs []string
		for i := range floodDescriptors {
			pairs = append(pairs, p, fmt.Sprint("client", i))
		}
		message, err := proto.Marshal(asking(pairs...))
		if err != nil {
			t.Fatal(err)
		}
		l.messages = append(l.messages, append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...))
	}
	l.out.WriteString(http2.ClientPreface)
	l.framer = http2.NewFramer(&l.out, nc)
	_ = l.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20}) // to memory
	_ = l.framer.WriteWindowUpdate(0, 1<<30)
	go l.receive()
	return l
}

// send sends the i-th request, with the next flush.
func (l *floodLine) send(_ *testing.T, i int) {
	i /= floodConnections
	count := l.result.of[l.priorities[i%len(l.priorities)]]
	count.sent++
	l.mu.Lock()
	l.open[l.next] = floodCall{count, time.Now()}
	l.mu.Unlock()
	_ = l.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: l.next, BlockFragment: l.headers, EndHeaders: true})
	_ = l.framer.WriteData(l.next, true, l.messages[i%len(l.messages)])
	l.next += 2
}

func (l *floodLine) flush(t *testing.T) {
	t.Helper()
	if _, err := l.out.WriteTo(l.nc); err != nil {
		t.Fatal(err)
	}
}

func (l *floodLine) room() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.open) < l.most
}

func (l *floodLine) idle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.open) == 0
}

// receive takes in answers until the connection ends.
func (l *floodLine) receive() {
	framer := http2.NewFramer(nil, l.nc)
	codes := map[uint32]byte{} // the overall code of what has not ended yet
	for {
		f, err := framer.ReadFrame()
		if err != nil {
			return
		}
		id := f.Header().StreamID
		switch f := f.(type) {
		case *http2.DataFrame:
			if b := f.Data(); codes[id] == 0 && len(b) > 6 { // the first field is the code
				codes[id] = b[6]
			}
		case *http2.HeadersFrame:
			if f.StreamEnded() {
				l.end(id, codes[id])
				delete(codes, id)
			}
		}
	}
}

func (l *floodLine) end(id uint32, code byte) {
	l.mu.Lock()
	call := l.open[id]
	delete(l.open, id)
	l.mu.Unlock()
	l.result.took.add(time.Since(call.sent))
	switch code {
	case 1:
		call.count.decided.Add(1)
	case 2:
		call.count.refused.Add(1)
	default:
		call.count.failed.Add(1)
	}
}
