package integration

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/ratelimitd/ratelimitd/internal/redistest"
)

// room is what a busy machine may add to a promised time, and to one of ten now and then mostRoom.
const (
	room     = 250 * time.Millisecond
	mostRoom = 3 * time.Second
)

// timings are how long answers took. The zero value has none.
type timings struct {
	mu   sync.Mutex
	took []time.Duration // guarded by mu
}

func (m *timings) add(took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.took = append(m.took, took)
}

// within wants the answers within a time.
func (m *timings) within(t *testing.T, promised time.Duration) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	slices.Sort(m.took)
	most, all := m.took[len(m.took)*9/10], m.took[len(m.took)-1]
	t.Logf("nine of ten answers of %d within %v, all within %v", len(m.took), most, all)
	if most > promised+room || all > promised+mostRoom {
		t.Errorf("promised are %v", promised)
	}
}

const failurePolicies = `
domain: edge
descriptors:
  - {key: allow, rate_limit: {requests_per_unit: 1000000, window: 100h, on_store_error: allow}}
  - {key: deny, rate_limit: {requests_per_unit: 1000000, window: 100h, on_store_error: deny}}
  - {key: error, rate_limit: {requests_per_unit: 1000000, window: 100h, on_store_error: error}}
`

// whileSilent is what each policy answers when Redis says nothing.
var whileSilent = map[string]struct {
	overall rlsv3.RateLimitResponse_Code
	err     codes.Code
	http    int
}{
	"allow": {rlsv3.RateLimitResponse_OK, codes.OK, http.StatusOK},
	"deny":  {rlsv3.RateLimitResponse_OVER_LIMIT, codes.OK, http.StatusTooManyRequests},
	"error": {rlsv3.RateLimitResponse_UNKNOWN, codes.Unavailable, http.StatusServiceUnavailable},
}

// However Redis is silent, and however a request comes, it is answered by its policy within 15 ms.
func TestAnswersWithinTheBudget(t *testing.T) {
	for _, silence := range []struct {
		name  string
		redis func(t *testing.T) (url string, silence, end func())
	}{
		{"stopped", func(t *testing.T) (string, func(), func()) {
			s := redistest.Start(t, redistest.Options{})
			return s.URL(), s.Pause, s.Resume
		}},
		{"holds calls", func(t *testing.T) (string, func(), func()) {
			p := holdBetween(t, redistest.Start(t, redistest.Options{}).Address)
			return "redis://" + p.address, p.hold, p.release
		}},
		{"cluster", func(t *testing.T) (string, func(), func()) {
			c := redistest.StartCluster(t, redistest.Options{})
			each := func(f func(*redistest.Server)) func() {
				return func() {
					for _, s := range c.Masters {
						f(s)
					}
				}
			}
			return c.URL(), each((*redistest.Server).Pause), each((*redistest.Server).Resume)
		}},
		{"a node of a cluster", func(t *testing.T) (string, func(), func()) {
			c := redistest.StartCluster(t, redistest.Options{})
			return c.URL(), c.Masters[0].Pause, c.Masters[0].Resume
		}},
	} {
		t.Run(silence.name, func(t *testing.T) {
			url, begin, end := silence.redis(t)
			server := serve(t, policyDir(t, failurePolicies), "RATELIMITD_STORE=redis", "RATELIMITD_REDIS_URL="+url, "RATELIMITD_STORE_TIMEOUT=15ms")
			conn, err := grpc.NewClient(server.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			client := rlsv3.NewRateLimitServiceClient(conn)
			decides := func() bool {
				reply, err := client.ShouldRateLimit(t.Context(), spread("error", "x"))
				return err == nil && reply.GetStatuses()[0].GetLimitRemaining() > 0
			}
			waitFor(t, 20*time.Second, "Redis to decide", decides)
			begin()
			var all sync.WaitGroup
			var answers [3]timings
			for policy := range whileSilent {
				for i := range 4 {
					all.Go(func() {
						for range 25 {
							request := spread(policy, fmt.Sprint(i))
							answers[0].time(t, func() error { return byGRPC(client, policy, request) })
							answers[1].time(t, func() error { return byGRPC(client, policy, request, grpc.UseCompressor(gzip.Name)) })
							answers[2].time(t, func() error { return byJSON(server.http, policy, request) })
						}
					})
				}
			}
			all.Wait()
			end()
			for i := range answers {
				answers[i].within(t, 15*time.Millisecond)
			}
			waitFor(t, 10*time.Second, "Redis to decide again", decides)
		})
	}
}

// spread asks about a limit with one policy, for keys of many hash slots, so that every node of a Cluster is asked.
func spread(policy, value string) *rlsv3.RateLimitRequest {
	var pairs []string
	for i := range 8 {
		pairs = append(pairs, policy, fmt.Sprint(value, i))
	}
	return asking(pairs...)
}

// time takes the time of an answer, which must be as wanted.
func (m *timings) time(t *testing.T, ask func() error) {
	t.Helper()
	began := time.Now()
	err := ask()
	m.add(time.Since(began))
	if err != nil {
		t.Error(err)
	}
}

func byGRPC(client rlsv3.RateLimitServiceClient, policy string, request *rlsv3.RateLimitRequest, options ...grpc.CallOption) error {
	want := whileSilent[policy]
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	reply, err := client.ShouldRateLimit(ctx, request, options...)
	if reply.GetOverallCode() != want.overall || status.Code(err) != want.err {
		return fmt.Errorf("%v, %w; want %v", reply.GetOverallCode(), err, want.overall)
	}
	return nil
}

func byJSON(address, policy string, request *rlsv3.RateLimitRequest) error {
	body, err := protojson.Marshal(request)
	if err != nil {
		return err
	}
	resp, err := http.Post("http://"+address+"/json", "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp.Body.Close()
	if want := whileSilent[policy].http; resp.StatusCode != want {
		return fmt.Errorf("status %d, want %d", resp.StatusCode, want)
	}
	return nil
}
