package service

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
	"github.com/ratelimitd/ratelimitd/pkg/descriptors"
)

// mixedPolicy has a rule of every kind.
func mixedPolicy(counting string) string {
	return "domain: t\ncounting: " + counting + `
defaults: {priority: sheddable}
descriptors:
  - {key: free, rate_limit: {unlimited: true}}
  - {key: listed}
  - {key: base, rate_limit: {unit: hour, requests_per_unit: 3, name: base}}
  - {key: vip, rate_limit: {unit: hour, requests_per_unit: 9, replaces: [{name: base}]}}
  - {key: trial, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: quota, value: a, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 2}, metadata: {pool: red}}
  - {key: quota, value: b, quota_mode: true, rate_limit: {unit: day, requests_per_unit: 4}}
  - {key: queue, rate_limit: {unit: second, requests_per_unit: 4, algorithm: leaky_bucket}}
  - {key: none, rate_limit: {unit: week, requests_per_unit: 0}}
  - {key: huge, rate_limit: {window: 1500ms, requests_per_unit: 4294967295, name: "` + strings.Repeat("very ", 23) + `long"}}
  - key: user
    priority: critical
    rate_limits:
      - {requests_per_unit: 2, unit: minute, unit_multiplier: 5}
      - {requests_per_unit: 3, unit: day, name: daily, on_store_error: deny, priority: default}
    metadata: {pool: blue, info: {x: 1}}
    descriptors:
      - {key: path, rate_limit: {unit: second, requests_per_unit: 1, algorithm: token_bucket, burst: 3}}
`
}

// randomRequest makes a request of mixedPolicy, or something near it.
func randomRequest(random *rand.Rand) *anyRequest {
	pick := func(words ...string) string { return words[random.IntN(len(words))] }
	r := &anyRequest{Domain: []byte(pick("t", "t", "t", "t", "t", "t", "other\xff", ""))}
	if random.IntN(3) == 0 {
		r.HitsAddend = uint32(random.IntN(4))
	}
	for range random.IntN(5) + random.IntN(2)*random.IntN(2) {
		d := anyDescriptor{Entries: entries(
			pick("free", "listed", "base", "vip", "trial", "quota", "quota", "queue", "none", "huge", "user", "user", "unknown"), pick("a", "b", "\xff", ""))}
		switch random.IntN(12) {
		case 0, 1, 2:
			d.Entries = append(d.Entries, entries("path", strings.Repeat("/", random.IntN(300)))...)
		case 3:
			d.Entries = nil
		case 4:
			d.Entries[0].Key = nil
		}
		if random.IntN(6) == 0 {
			d.HasOverride = true
			d.Override = descriptors.Override{Requests: uint32(random.IntN(4)), Unit: int32(random.IntN(9)), Multiplier: uint32(random.IntN(3))}
		}
		if random.IntN(5) == 0 {
			d.HasHits, d.Hits = true, []uint64{0, 1, 2, math.MaxUint64}[random.IntN(4)]
		}
		d.IsNegative = random.IntN(10) == 0
		r.Descriptors = append(r.Descriptors, d)
	}
	return r
}

// trouble makes a store say anything.
func trouble(random *rand.Rand) func([]algorithm.Ask, []algorithm.Decision) {
	durations := []time.Duration{-time.Second, 0, 1, time.Second, 1500 * time.Millisecond, algorithm.MaxWindow}
	return func(_ []algorithm.Ask, out []algorithm.Decision) {
		for i := range out {
			d := &out[i]
			switch random.IntN(8) {
			case 0:
				*d = algorithm.Decision{Err: errStoreGone}
			case 1:
				*d = algorithm.Decision{Outcome: algorithm.Allowed, Degraded: true, Err: errStoreGone}
			case 2:
				*d = algorithm.Decision{Outcome: algorithm.Denied, Degraded: true, Err: errStoreGone}
			case 3:
				d.Remaining = []int64{-1, 0, 1, math.MaxUint32, math.MaxInt64}[random.IntN(5)]
			case 4:
				d.Reset, d.RetryAfter, d.Delay = durations[random.IntN(6)], durations[random.IntN(6)], durations[random.IntN(6)]
			case 5:
				d.Never = true
			}
		}
	}
}

func randomOptions(random *rand.Rand) Options {
	flip := func() bool { return random.IntN(2) == 0 }
	return Options{
		Headers: Headers{RateLimit: flip(), RateLimitPolicy: flip(), RetryAfter: flip(), Triple: flip(), XTriple: flip(), Delay: flip()},
		Body:    flip(), Metadata: flip(), Terse: flip(), MaxDescriptors: 4,
	}
}

// answersEqual answers random batches and compares what is said with the
// oracle, and with what a service is told that gets one request after another.
func answersEqual(t testing.TB, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 1))
	o := randomOptions(random)
	counting := []string{"precise", "reference"}[random.IntN(2)]
	rules := compile(t, mixedPolicy(counting))
	if random.IntN(2) == 0 {
		rules = hiding(t, mixedPolicy(counting))
	}
	newService := func() (*memory, *recorder, *Service) {
		store := newMemory()
		recorder := &recorder{next: store}
		s, err := New(recorder, o, nil)
		if err != nil {
			t.Fatal(err)
		}
		s.SetRules(rules)
		return store, recorder, s
	}
	together, recorded, s := newService()
	apart, _, single := newService()
	oracle := &oracle{options: o, rules: rules}
	troubled := random.IntN(2) == 0
	for range 8 {
		var batch, alone []Exchange
		var asked []*anyRequest
		for range 1 + random.IntN(12) {
			r := randomRequest(random)
			e := Exchange{Request: encode(r), Strict: random.IntN(2) == 0, TooLarge: random.IntN(20) == 0, Reply: []byte("before")}
			if e.TooLarge {
				e.Request = nil
			}
			if random.IntN(2) == 0 {
				e.Deadline = time.Now().Add(time.Hour)
			}
			asked, batch = append(asked, r), append(batch, e)
		}
		alone = append(alone, batch...)
		together.decided, apart.decided = nil, nil
		if troubled {
			sayings := random.Uint64()
			together.decided, apart.decided = trouble(rand.New(rand.NewPCG(sayings, 0))), trouble(rand.New(rand.NewPCG(sayings, 0)))
		}
		recorded.asks, recorded.decisions, recorded.calls = nil, nil, 0
		s.Answer(t.Context(), batch)
		if recorded.calls > 1 {
			t.Fatalf("the store was asked %d times", recorded.calls)
		}
		for i := range alone {
			single.Answer(t.Context(), alone[i:i+1])
		}
		for i := range batch {
			asks, decisions := recorded.group(i)
			want, fault := oracle.reply(t, asked[i], &batch[i], asks, decisions)
			equal(t, &batch[i], want, fault)
			if !bytes.Equal(batch[i].Reply, alone[i].Reply) || errorText(&batch[i]) != errorText(&alone[i]) {
				t.Fatalf("request %d: %+v\ntogether %x %v\nalone    %x %v", i, asked[i], batch[i].Reply, batch[i].Err, alone[i].Reply, alone[i].Err)
			}
		}
		pause := time.Duration(random.IntN(60_000)) * time.Millisecond
		together.sleep(pause)
		apart.sleep(pause)
	}
}

func errorText(e *Exchange) string {
	if e.Err == nil {
		return ""
	}
	return fmt.Sprint(e.Err.Code(), e.Err)
}

// equal compares what an exchange was answered with what it should have been.
// A reply must be written as the protobuf library writes it.
func equal(t testing.TB, e *Exchange, want *rlsv3.RateLimitResponse, fault string) {
	t.Helper()
	reply, ok := bytes.CutPrefix(e.Reply, []byte("before"))
	if !ok {
		t.Fatalf("the reply is not appended: %q", e.Reply)
	}
	if fault != "" {
		if e.Err == nil || e.Err.Error() != fault || len(reply) > 0 {
			t.Fatalf("got %x, %v, want %s", reply, e.Err, fault)
		}
		return
	}
	got, err := replyOf(t, &Exchange{Reply: reply, Err: e.Err})
	if err != nil {
		t.Fatalf("got %v, want %v", err, want)
	}
	canonical, err := proto.MarshalOptions{Deterministic: true}.Marshal(got)
	if err != nil || !bytes.Equal(reply, canonical) {
		t.Fatalf("reply\n%x, protobuf writes\n%x, %v", reply, canonical, err)
	}
	got.DynamicMetadata = nil
	if !proto.Equal(got, want) {
		t.Fatalf("got  %v\nwant %v", got, want)
	}
}

func TestAnswersEqual(t *testing.T) {
	for seed := range uint64(300) {
		answersEqual(t, seed)
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) { answersEqual(t, seed) })
}

// More than is decided at once, and large requests among small ones.
func TestAnswerOfLargeBatches(t *testing.T) {
	store := newMemory()
	recorded := &recorder{next: store}
	o := DefaultOptions()
	o.MaxDescriptors = 3000
	s, err := New(recorded, o, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.SetRules(compile(t, "domain: t\ndescriptors:\n  - {key: k, rate_limit: {unit: hour, requests_per_unit: 3}}\n"))
	small := func(i int) []byte {
		return encode(&anyRequest{Domain: []byte("t"), Descriptors: []anyDescriptor{{Entries: entries("k", fmt.Sprint(i/5))}}})
	}
	large := &anyRequest{Domain: []byte("t")}
	for range 3000 {
		large.Descriptors = append(large.Descriptors, anyDescriptor{Entries: entries("any", "thing")})
	}
	batch := make([]Exchange, 5000)
	for i := range batch {
		batch[i].Request = small(i)
		if i%1000 == 777 {
			batch[i].Request = encode(large)
		}
	}
	s.Answer(t.Context(), batch)
	for i := range batch {
		response, err := replyOf(t, &batch[i])
		want := []string{"OK OK:2/3@1849", "OK OK:1/3@1849", "OK OK:0/3@1849", "OVER OVER:0/3@1849", "OVER OVER:0/3@1849"}[i%5]
		switch {
		case i%1000 == 777:
			want = "OK" + strings.Repeat(" OK", 3000)
		case i%1000 > 777 && i%1000 < 780:
			want = []string{3: "OK OK:0/3@1849", 4: "OVER OVER:0/3@1849"}[i%5]
		}
		if got := show(response, err); got != want {
			t.Errorf("request %d: got %s, want %s", i, got, want)
		}
	}
	if recorded.calls < 10 || recorded.calls > 20 {
		t.Errorf("the store was asked %d times", recorded.calls)
	}
	s.Answer(t.Context(), nil)
}

// A request that nobody could read whole is refused, since an error would let
// it through.
func TestTooLargeMessage(t *testing.T) {
	s := start(t, DefaultOptions(), "")
	answer := func() string {
		batch := []Exchange{{TooLarge: true}}
		s.Answer(t.Context(), batch)
		return show(replyOf(t, &batch[0]))
	}
	if got := answer(); got != "Unavailable" {
		t.Errorf("without rules: %s", got)
	}
	s.SetRules(compile(t, sitePolicy))
	if got := answer(); got != "OVER" {
		t.Errorf("got %s", got)
	}
	if got := s.counter(t, "ratelimitd_too_large_requests_total"); got != 1 {
		t.Errorf("%v counted", got)
	}
}

// A panic concerns all that were decided together, and nobody else.
func TestPanicInABatch(t *testing.T) {
	s := start(t, DefaultOptions(), sitePolicy)
	wire := encode(&anyRequest{Domain: []byte("t"), Descriptors: []anyDescriptor{{Entries: entries("site", "s")}}})
	panics := true
	s.store.decided = func([]algorithm.Ask, []algorithm.Decision) {
		if panics {
			panics = false
			panic("a bug")
		}
	}
	batch := make([]Exchange, fullAsks+10)
	for i := range batch {
		batch[i].Request = wire
	}
	s.Answer(context.Background(), batch)
	for i := range batch {
		if err := batch[i].Err; (err != nil) != (i < fullAsks) || err != nil && err.Kind != Internal {
			t.Fatalf("request %d: %v", i, err)
		}
	}
	if got := s.counter(t, "ratelimitd_errors_total"); got != fullAsks {
		t.Errorf("%v errors counted", got)
	}
}

// TestLimitsThatAreMetAreBounded: one request cannot hold up others with what it
// has the store decide, and what it asks past the bound is not charged.
func TestLimitsThatAreMetAreBounded(t *testing.T) {
	o := DefaultOptions()
	o.MaxDescriptors = 4
	s := start(t, o, `
domain: t
descriptors:
  - key: two
    rate_limits:
      - {unit: hour, requests_per_unit: 9}
      - {unit: day, requests_per_unit: 99}
`)
	s.play(t, []step{
		{0, "(two=a) + (two=b)", "OK OK:8/9@1849 OK:8/9@1849"},
		{0, "(two=a) + (two=b) + (none=c)", "OK OK:7/9@1849 OK:7/9@1849 OK"},
		{0, "(two=a) + (two=b) + (two=c)", "OVER OVER OVER OVER"},
		{0, "(none=a) + (none=b) + (none=c) + (none=d) + (none=e)", "OVER OVER OVER OVER OVER OVER"},
		{0, "(two=a) + (two=b)", "OK OK:6/9@1849 OK:6/9@1849"},
	})
	if got := s.counter(t, "ratelimitd_too_large_requests_total"); got != 2 {
		t.Errorf("%v counted", got)
	}
}

// A request is late by its own deadline, though the connection goes on.
func TestDeadlineOfAnExchange(t *testing.T) {
	s := start(t, DefaultOptions(), sitePolicy)
	s.store.decided = func(_ []algorithm.Ask, out []algorithm.Decision) {
		for i := range out {
			out[i] = algorithm.Decision{Err: errStoreGone}
		}
	}
	wire := encode(&anyRequest{Domain: []byte("t"), Descriptors: []anyDescriptor{{Entries: entries("site", "s")}}})
	batch := []Exchange{
		{Request: wire}, {Request: wire, Deadline: time.Now().Add(-time.Second)}, {Request: wire, Deadline: time.Now().Add(time.Hour)},
	}
	s.Answer(t.Context(), batch)
	for i, want := range []Kind{Unavailable, DeadlineExceeded, Unavailable} {
		if err := batch[i].Err; err == nil || err.Kind != want {
			t.Errorf("request %d: %v", i, err)
		}
	}
}
