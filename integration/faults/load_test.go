package faults

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// give is when a caller gives up: so late that an answer that is late is seen to be.
const give = 10 * time.Second

// load asks replicas at a fixed rate, whether they answer or not, and keeps what they say.
type load struct {
	replicas []*replica
	rate     int // calls a second
	keys     []string
	halt     chan struct{}
	done     sync.WaitGroup
	answered atomic.Int64

	mu    sync.Mutex
	calls []call // guarded by mu
}

// startLoad begins to ask for the keys: three calls in four for the hot ones, the others for visitors. The order follows from
// the seed.
func startLoad(t *testing.T, replicas []*replica, rules map[string]rule, rate int, seed uint64) *load {
	t.Helper()
	l := &load{replicas: replicas, rate: rate, halt: make(chan struct{})}
	for key := range rules {
		l.keys = append(l.keys, key)
	}
	slices.Sort(l.keys)
	visitor := slices.IndexFunc(l.keys, func(key string) bool { return strings.HasPrefix(key, "visitor") })
	hot, rare := slices.Clone(l.keys[:visitor]), l.keys[visitor:]
	for _, key := range hot {
		if strings.HasSuffix(key, "/scarce") { // so that also an outage uses them up
			hot = append(hot, key, key, key)
		}
	}
	random := rand.New(rand.NewPCG(seed, 0))
	l.done.Go(func() {
		began := time.Now()
		timer := time.NewTimer(0)
		defer timer.Stop()
		for i := 0; ; i++ {
			timer.Reset(time.Until(began.Add(time.Duration(i) * time.Second / time.Duration(rate))))
			select {
			case <-l.halt:
				return
			case <-timer.C:
			}
			key := hot[random.IntN(len(hot))]
			if random.IntN(4) == 0 {
				key = rare[random.IntN(len(rare))]
			}
			at := random.IntN(len(replicas))
			l.done.Go(func() { l.ask(at, key) })
		}
	})
	t.Cleanup(func() { l.stop() })
	return l
}

// ask sends one call and keeps its answer.
func (l *load) ask(at int, key string) {
	c := call{server: at, key: key}
	ctx, cancel := context.WithTimeout(context.Background(), give)
	defer cancel()
	c.sent = instant(time.Now().UnixMicro())
	reply, err := l.replicas[at].asks.ShouldRateLimit(ctx, request(key))
	c.back = instant(time.Now().UnixMicro())
	switch {
	case err != nil:
		c.reason = status.Convert(err).Message()
	case reply.GetOverallCode() == ratelimitv3.RateLimitResponse_OK:
		c.told = admitted
	case reply.GetOverallCode() == ratelimitv3.RateLimitResponse_OVER_LIMIT:
		c.told = refused
	}
	c.degraded = reply.GetDynamicMetadata().GetFields()["degraded"].GetBoolValue()
	l.mu.Lock()
	l.calls = append(l.calls, c)
	l.mu.Unlock()
	l.answered.Add(1)
}

// goOn returns when the load has gone on for a while.
func (l *load) goOn(t *testing.T, during time.Duration) {
	t.Helper()
	want := l.answered.Load() + int64(during.Seconds()*float64(l.rate))
	waitFor(t, "the load to go on", func() bool { return l.answered.Load() >= want })
}

// stop ends the load, waits for the answers that are due, and returns all calls.
func (l *load) stop() []call {
	select {
	case <-l.halt:
	default:
		close(l.halt)
	}
	l.done.Wait()
	return l.calls
}

// request asks for one hit on a key.
func request(key string) *ratelimitv3.RateLimitRequest {
	entry := &commonv3.RateLimitDescriptor_Entry{Key: "hot", Value: key}
	if strings.HasPrefix(key, "visitor") {
		entry.Key = "visitor"
	}
	return &ratelimitv3.RateLimitRequest{
		Domain:      "faults",
		Descriptors: []*commonv3.RateLimitDescriptor{{Entries: []*commonv3.RateLimitDescriptor_Entry{entry}}},
	}
}

// look returns how many hits a key holds, by what a look at it says is left. It is not ok when no store tells.
func look(t *testing.T, r *replica, key string, capacity int64) (hits int64, ok bool) {
	t.Helper()
	asked := request(key)
	asked.Descriptors[0].HitsAddend = wrapperspb.UInt64(0)
	ctx, cancel := context.WithTimeout(t.Context(), give)
	defer cancel()
	reply, err := r.asks.ShouldRateLimit(ctx, asked)
	if err != nil || len(reply.GetStatuses()) != 1 || reply.GetDynamicMetadata().GetFields()["degraded"].GetBoolValue() {
		return 0, false
	}
	return capacity - int64(reply.GetStatuses()[0].GetLimitRemaining()), true
}
