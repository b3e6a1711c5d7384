package service

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
	"github.com/ratelimitd/ratelimitd/pkg/descriptors"
)

// diary is a meter that writes down what it is told, but for times.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (m *diary) write(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lines = append(m.lines, fmt.Sprintf(format, args...))
}

func (m *diary) Sheet(rules *descriptors.Rules) Sheet { return page{m, len(rules.Limits())} }
func (m *diary) UnknownDomain(domain []byte, n int)   { m.write("unknown %s %d", domain, n) }
func (m *diary) Answered(_ time.Duration, n int)      { m.write("answered %d", n) }
func (m *diary) Failed(store bool)                    { m.write("failed, store %v", store) }
func (m *diary) Shadowed()                            { m.write("shadowed") }

// page is a sheet of a diary.
type page struct {
	diary  *diary
	limits int
}

func (p page) Count(l *descriptors.Limit, entries []descriptors.Entry, a *algorithm.Ask, d *algorithm.Decision) {
	p.diary.write("%s of %d: %s=%s %d %v", l.ID, p.limits, entries[0].Key, entries[0].Value, a.Hits, d.Outcome)
}

// silent is a meter that counts nothing.
type silent struct{}

func (silent) Sheet(*descriptors.Rules) Sheet                                                     { return silent{} }
func (silent) UnknownDomain([]byte, int)                                                          {}
func (silent) Answered(time.Duration, int)                                                        {}
func (silent) Failed(bool)                                                                        {}
func (silent) Shadowed()                                                                          {}
func (silent) Count(*descriptors.Limit, []descriptors.Entry, *algorithm.Ask, *algorithm.Decision) {}

// A meter is told of each decision, with the descriptor it was for, and of what no decision was about.
func TestMeter(t *testing.T) {
	const policy = "domain: t\ndescriptors:\n  - {key: a, rate_limit: {unit: hour, requests_per_unit: 1}}\n  - {key: b, rate_limits: [{unit: hour, requests_per_unit: 9}, {unit: day, requests_per_unit: 99}]}\n"
	request := func(domain string, hits uint64, names ...string) *anyRequest {
		r := &anyRequest{Domain: []byte(domain), HitsAddend: uint32(hits)}
		for _, name := range names {
			key, value, _ := strings.Cut(name, "=")
			r.Descriptors = append(r.Descriptors, anyDescriptor{Entries: entries(key, value)})
		}
		return r
	}
	brought := request("t", 1, "o=1")
	brought.Descriptors[0].HasOverride = true
	brought.Descriptors[0].Override.Requests, brought.Descriptors[0].Override.Unit = 5, 3
	meter, store := new(diary), newMemory()
	s, err := New(store, Options{Meter: meter, Shadow: true, MaxDescriptors: 3}, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer := func(requests ...*anyRequest) {
		exchanges := make([]Exchange, len(requests))
		for i, r := range requests {
			exchanges[i].Request = encode(r)
		}
		s.Answer(t.Context(), exchanges)
	}
	answer(request("t", 1, "a=1"))
	s.SetRules(compile(t, policy))
	answer(request("t", 1, "none=1", "a=1"), request("u", 1, "a=1", "b=1"), request("t", 2, "a=2", "b=2"), brought, request("t", 1, "b=1", "b=2"), request("", 1))
	store.decided = func(_ []algorithm.Ask, out []algorithm.Decision) {
		out[0] = algorithm.Decision{Err: errors.New("away")}
	}
	answer(request("t", 1, "a=3"))
	want := `failed, store false
answered 1
unknown u 2
t/a of 3: a=1 1 allowed
t/a of 3: a=2 2 denied
t/b fixed_window 1h0m0s of 3: b=2 2 allowed
t/b fixed_window 24h0m0s of 3: b=2 2 allowed
t override of 3: o=1 1 allowed
shadowed
failed, store false
answered 6
t/a of 3: a=3 1 undecided
failed, store true
answered 1`
	if got := strings.Join(meter.lines, "\n"); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}
