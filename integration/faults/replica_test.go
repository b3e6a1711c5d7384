package faults

import (
	"bufio"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/ratelimitd/ratelimitd/internal/programtest"
)

// patience bounds the waits for what has no promised time.
const patience = 30 * time.Second

// replica is a running `ratelimitd serve`, with a connection to it.
type replica struct {
	*programtest.Process

	program    string
	grpc, http string // addresses
	env        []string
	asks       ratelimitv3.RateLimitServiceClient
}

// startFleet starts that many.
func startFleet(t *testing.T, program, policies string, settings []string) []*replica {
	t.Helper()
	var fleet []*replica
	for range replicas {
		fleet = append(fleet, startReplica(t, program, policies, settings...))
	}
	if !slices.Contains(settings, "STORE=memory") {
		waitFor(t, "replicas to know of each other", func() bool {
			return !slices.ContainsFunc(fleet, func(r *replica) bool { return r.metric("ratelimitd_replicas") < replicas })
		})
	}
	return fleet
}

// onRedis are the settings for a Redis.
func onRedis(url string) []string {
	return []string{"STORE=redis", "REDIS_URL=" + url, "STORE_TIMEOUT=" + storeTimeout.String()}
}

// startReplica starts ratelimitd with settings NAME=value, without RATELIMITD_, and waits until it is ready.
func startReplica(t *testing.T, program, policies string, settings ...string) *replica {
	t.Helper()
	addresses := [3]string{programtest.FreeAddress(t), programtest.FreeAddress(t), programtest.FreeAddress(t)}
	r := &replica{program: program, grpc: addresses[0], http: addresses[1]}
	r.env = []string{
		"PATH=" + os.Getenv("PATH"),
		"RATELIMITD_POLICIES=" + policies,
		"RATELIMITD_GRPC_ADDRESS=" + r.grpc,
		"RATELIMITD_HTTP_ADDRESS=" + r.http,
		"RATELIMITD_ADMIN_ADDRESS=" + addresses[2],
		"RATELIMITD_DYNAMIC_METADATA=true", // it tells which answers are degraded
		"RATELIMITD_DRAIN_DELAY=0s",
	}
	for _, s := range settings {
		if !strings.HasPrefix(s, lacking) {
			s = "RATELIMITD_" + s
		}
		r.env = append(r.env, s)
	}
	r.start(t)
	conn, err := grpc.NewClient(r.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	r.asks = ratelimitv3.NewRateLimitServiceClient(conn)
	return r
}

// start starts the process, again if it has ended, and waits until it is ready.
func (r *replica) start(t *testing.T) {
	t.Helper()
	cmd := exec.Command(r.program, "serve")
	cmd.Env = r.env
	r.Process = programtest.Start(t, cmd)
	waitFor(t, "ratelimitd to be ready", func() bool {
		if !r.Running() {
			t.Fatal("ratelimitd ended")
		}
		return r.health() == http.StatusOK
	})
}

// health returns the status of the health check, 0 when nobody answers.
func (r *replica) health() int {
	resp, err := http.Get("http://" + r.http + "/healthcheck")
	if err != nil {
		return 0
	}
	resp.Body.Close()
	return resp.StatusCode
}

// metric returns a metric by its name and labels, as they are written; 0 when there is none.
func (r *replica) metric(name string) float64 {
	resp, err := http.Get("http://" + r.http + "/metrics")
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			number, _ := strconv.ParseFloat(value, 64) // as Prometheus writes it
			return number
		}
	}
	return 0
}

// lostHome is how many hits of its own it may not have brought home.
func (r *replica) lostHome() int64 {
	return int64(r.metric(`ratelimitd_local_hits_home_total{result="lost"}`))
}

// waitFor waits until the condition holds.
func waitFor(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if holds() {
			return
		}
	}
	t.Fatalf("waited %v in vain for %s", patience, what)
}
