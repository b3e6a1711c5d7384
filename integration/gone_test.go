package integration

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"golang.org/x/net/http2"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/ratelimitd/ratelimitd/internal/redistest"
)

// A request that waits for its turn at Redis is not charged once its caller has left: by a reset, by closing the connection,
// or by its own deadline.
func TestNothingIsChargedForWhoHasLeft(t *testing.T) {
	redis := redistest.Start(t, redistest.Options{})
	proxy := holdBetween(t, redis.Address)
	server := serve(t, policyDir(t, userPolicy(10)), "RATELIMITD_STORE=redis", "RATELIMITD_REDIS_URL=redis://"+proxy.address)
	proxy.hold()

	// As many calls of Redis as there may be at a time.
	const most = 4
	filling := server.call(t)
	for stream := uint32(1); proxy.calls() < most; stream += 2 {
		filling.ask(t, stream, asking("user", fmt.Sprint("filling", stream)))
		filling.awaitRead(t)
		if stream > 100 {
			t.Fatalf("%d calls of Redis", proxy.calls())
		}
	}
	callers := map[string]*caller{}
	for _, name := range []string{"stays", "resets", "closes", "is late"} {
		callers[name] = server.call(t)
		headers := []string{}
		if name == "is late" {
			headers = []string{"grpc-timeout", "50m"}
		}
		callers[name].ask(t, 1, asking("user", name), headers...)
		callers[name].awaitRead(t)
	}
	if n := proxy.calls(); n != most {
		t.Fatalf("%d calls of Redis, want %d", n, most)
	}

	callers["resets"].must(t, callers["resets"].framer.WriteRSTStream(1, http2.ErrCodeCancel))
	callers["resets"].awaitRead(t)
	callers["closes"].nc.Close()
	waitFor(t, 20*time.Second, "the connection to be closed", func() bool {
		return server.metric(t, "ratelimitd_grpc_connections_closed_total") == "1"
	})
	if reply := callers["is late"].awaitAnswer(t, 1); reply != nil {
		t.Errorf("a late request was answered %v", reply)
	}
	proxy.release()
	if reply := callers["stays"].awaitAnswer(t, 1); reply.GetOverallCode() != rlsv3.RateLimitResponse_OK {
		t.Errorf("who stays was answered %v", reply)
	}

	for name, want := range map[string]uint32{"stays": 9, "resets": 10, "closes": 10, "is late": 10} {
		look := asking("user", name)
		look.Descriptors[0].HitsAddend = wrapperspb.UInt64(0)
		looks := server.call(t)
		looks.ask(t, 1, look)
		if got := looks.awaitAnswer(t, 1).GetStatuses()[0].GetLimitRemaining(); got != want {
			t.Errorf("who %s has %d left, want %d", name, got, want)
		}
	}
	if n, _ := strconv.Atoi(server.metric(t, `ratelimitd_errors_total{kind="canceled"}`)); n < 2 {
		t.Errorf("%d calls were canceled, want 2", n)
	}
}
