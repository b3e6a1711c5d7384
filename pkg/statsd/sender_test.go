package statsd

import (
	"bufio"
	"bytes"
	"context"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	often   = 20 * time.Millisecond // of sending
	forLong = 10 * time.Second      // before a test gives up
)

// run sends until the test ends, or until stop is called, which returns when all was sent.
func run(t *testing.T, tally *Tally, o SenderOptions) (stop func()) {
	t.Helper()
	if o.Interval == 0 {
		o.Interval = often
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		NewSender(tally, o).Run(ctx)
	}()
	stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(stop)
	return stop
}

// listenUDP returns an address, and a function that waits for the next line which begins with a text.
func listenUDP(t *testing.T) (string, func(begin string) string) {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	var lines []string
	packet := make([]byte, 1<<16)
	return conn.LocalAddr().String(), func(begin string) string {
		t.Helper()
		_ = conn.SetReadDeadline(time.Now().Add(forLong))
		for {
			for len(lines) > 0 {
				line := lines[0]
				if lines = lines[1:]; strings.HasPrefix(line, begin) {
					return line
				}
			}
			n, _, err := conn.ReadFrom(packet)
			if err != nil {
				t.Fatalf("no line begins with %q: %v", begin, err)
			}
			if n > datagram {
				t.Errorf("a datagram of %d bytes", n)
			}
			lines = strings.Split(strings.TrimSuffix(string(packet[:n]), "\n"), "\n")
		}
	}
}

// What was counted is sent once, what is counted later is sent by itself.
func TestSendOverUDP(t *testing.T) {
	address, next := listenUDP(t)
	rules := compile(t, namesPolicy)
	tally := NewTally(Options{Methods: []string{"Check"}})
	s := tally.Sheet(rules)
	ask(t, s, rules, "sn", entriesOf("plain=v"))
	ask(t, s, rules, "sn", entriesOf("plain=v"))
	run(t, tally, SenderOptions{Network: UDP, Address: address, Sources: []Source{Process}})
	const name = "ratelimit.service.rate_limit.sn.plain_v.total_hits"
	if got := next(name); got != name+":2|c" {
		t.Error(got)
	}
	if got := next("ratelimit.go.numGoroutine"); !strings.HasSuffix(got, "|g") {
		t.Error(got)
	}
	ask(t, s, rules, "sn", entriesOf("plain=v"))
	if got := next(name); got != name+":1|c" {
		t.Error(got)
	}
	tally.Failed(true)
	tally.Failed(false)
	tally.Shadowed()
	tally.Answered(3*time.Millisecond, 2)
	tally.Called("Check", 7*time.Millisecond)
	tally.Called("Watch", time.Hour) // not one that is counted
	want := []string{
		"ratelimit.service.call.should_rate_limit.redis_error:1|c", "ratelimit.service.call.should_rate_limit.service_error:1|c",
		"ratelimit.service.global_shadow_mode:1|c",
		"ratelimit_server.Check.response_time:7|ms", "ratelimit_server.Check.total_requests:1|c", "ratelimit_server.ShouldRateLimit.response_time:3|ms", "ratelimit_server.ShouldRateLimit.response_time:3|ms",
		"ratelimit_server.ShouldRateLimit.total_requests:2|c",
	}
	var got []string
	for len(got) < len(want) {
		if line := next("ratelimit"); !strings.HasSuffix(line, "|g") && !strings.HasPrefix(line, rulePrefix) && !strings.HasPrefix(line, "ratelimit.go.") {
			got = append(got, line)
		}
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// Tags are part of names, or are written as dogstatsd has them.
func TestTags(t *testing.T) {
	tags := map[string]string{"zone": "z1", "app": "r:l|x", "version": "1.2 #3", "none": "", "": "none"}
	for _, row := range []struct {
		dog  bool
		want string
	}{
		{false, "ratelimit.service.global_shadow_mode.__app=r_l_x.__version=1_2 #3.__zone=z1:1|c"},
		{true, "ratelimit.service.global_shadow_mode:1|c|#app:r_l_x,version:1.2 #3,zone:z1"},
	} {
		address, next := listenUDP(t)
		tally := NewTally(Options{})
		tally.Shadowed()
		run(t, tally, SenderOptions{Network: UDP, Address: address, Tags: tags, Dog: row.dog})
		if got := next("ratelimit.service"); got != row.want {
			t.Errorf("%q, want %q", got, row.want)
		}
	}
}

// What has no tags has none in either form, what has some of its own has them
// besides, and the next line has those of all again.
func TestTagsOfOne(t *testing.T) {
	m, err := NewMogrifier("^loads$", "l", map[string]string{"kind": "x"})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []SenderOptions{{}, {Dog: true}, {Dog: true, Mogrifiers: []Mogrifier{m}}} {
		var next func(string) string
		o.Address, next = listenUDP(t)
		o.Network, o.Tags = UDP, map[string]string{"host": "h"}
		o.Sources = []Source{func(tell func(Metric)) {
			tell(Metric{Name: "reserved_tag", Value: 1, Bare: true})
			tell(Metric{Name: "own", Value: 2, Tags: map[string]string{"code": "ok"}})
			tell(Metric{Name: "own", Value: 3, Tags: map[string]string{"code": "error"}})
			tell(Metric{Name: "reserved", Value: 1, Gauge: true})
		}}
		run(t, NewTally(Options{}), o)
		if got := next("reserved_tag"); got != "reserved_tag:1|c" {
			t.Error(got)
		}
		want := []string{"own.__code=ok.__host=h:2|c", "own.__code=error.__host=h:3|c", "reserved.__host=h:1|g"}
		if o.Dog {
			want = []string{"own:2|c|#code:ok,host:h", "own:3|c|#code:error,host:h", "reserved:1|g|#host:h"}
		}
		for _, want := range want {
			if got := next(want[:3]); got != want {
				t.Errorf("%s, want %s", got, want)
			}
		}
	}
}

// Of many times some are sent, with their part of all.
func TestTimesAreSampled(t *testing.T) {
	address, next := listenUDP(t)
	tally := NewTally(Options{})
	tally.Answered(2500*time.Microsecond, 4*kept)
	run(t, tally, SenderOptions{Network: UDP, Address: address})
	const name = "ratelimit_server.ShouldRateLimit.response_time"
	for range kept {
		if got := next(name); got != name+":2|ms|@0.25" {
			t.Fatal(got)
		}
	}
}

// A source's counter is sent by how much it grew, also after it began anew.
func TestSources(t *testing.T) {
	address, next := listenUDP(t)
	values := make(chan float64, 4)
	for _, v := range []float64{5, 5, 7, 3} {
		values <- v
	}
	last := 3.0
	run(t, NewTally(Options{}), SenderOptions{Network: UDP, Address: address, Sources: []Source{func(tell func(Metric)) {
		select {
		case last = <-values:
		default:
		}
		tell(Metric{Name: "loads", Value: last})
	}}})
	for _, want := range []string{"loads:5|c", "loads:2|c", "loads:3|c"} {
		if got := next("loads"); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// buffer is a log that can be read while it is written.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(forLong); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}

// While nobody listens everything is kept, and the log says so once; when somebody does, all of it is sent. What is counted
// last is sent at the end.
func TestSendOverTCP(t *testing.T) {
	reserved, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := reserved.Addr().String()
	_ = reserved.Close()
	log := new(buffer)
	tally := NewTally(Options{})
	stop := run(t, tally, SenderOptions{Network: TCP, Address: address, Log: slog.New(slog.NewTextHandler(log, nil))})
	waitFor(t, "no line in the log", func() bool { return strings.Contains(log.String(), "cannot be sent") })
	const n = 5000 // names, more than go into one segment
	rules := compile(t, namesPolicy)
	s := tally.Sheet(rules)
	tally.options.MaxNames = n
	for i := range n {
		ask(t, s, rules, "sn", entriesOf("det="+time.Duration(i).String()))
	}

	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetReadDeadline(time.Now().Add(forLong))
	seen := make(map[string]string)
	lines := bufio.NewScanner(conn)
	for len(seen) < n && lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ":")
		if strings.HasSuffix(name, ".total_hits") {
			if seen[name] != "" || value != "1|c" {
				t.Fatalf("%s: %s after %s", name, value, seen[name])
			}
			seen[name] = value
		}
	}
	if len(seen) != n {
		t.Fatalf("%d names: %v", len(seen), lines.Err())
	}
	waitFor(t, "no line in the log", func() bool { return strings.Contains(log.String(), "sent again") })
	if got := strings.Count(log.String(), "cannot be sent"); got != 1 {
		t.Errorf("it was said %d times:\n%s", got, log)
	}
	tally.Shadowed()
	stop()
	found := false
	for !found && lines.Scan() {
		found = lines.Text() == "ratelimit.service.global_shadow_mode:1|c"
	}
	if !found {
		t.Error("what was counted last was not sent", lines.Err())
	}
}
