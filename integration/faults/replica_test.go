package faults

import (
	"bufio"
	"bytes"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// patience bounds the waits for what has no promised time.
const patience = 30 * time.Second

// replica is a running `ratelimitd serve`, with a connection to it.
type replica struct {
	program    string
	grpc, http string // addresses
	env        []string
	cmd        *exec.Cmd
	log        *journal
	ended      chan struct{} // closed when the program has ended
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
	addresses := freeAddresses(t, 3)
	r := &replica{program: program, grpc: addresses[0], http: addresses[1], log: &journal{}}
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
	t.Cleanup(func() {
		r.kill()
		if t.Failed() {
			t.Logf("log of ratelimitd:\n%s", r.log.tail(20))
		}
	})
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
	r.ended = make(chan struct{})
	r.cmd = exec.Command(r.program, "serve")
	r.cmd.Env, r.cmd.Stdout, r.cmd.Stderr = r.env, r.log, r.log
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error, 1)
	go func(ended chan struct{}) {
		// Pdeathsig follows the thread that started the program, so this one is kept for as long as it runs.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(ended)
		err := r.cmd.Start()
		started <- err
		if err == nil {
			_ = r.cmd.Wait() // how it ended says nothing
		}
	}(r.ended)
	if err := <-started; err != nil {
		t.Fatalf("start ratelimitd: %v", err)
	}
	waitFor(t, "ratelimitd to be ready", func() bool {
		if !r.running() {
			t.Fatalf("ratelimitd ended:\n%s", r.log.tail(20))
		}
		return r.health() == http.StatusOK
	})
}

func (r *replica) running() bool {
	select {
	case <-r.ended:
		return false
	default:
		return true
	}
}

// kill ends the process at once.
func (r *replica) kill() {
	if r.running() {
		_ = r.cmd.Process.Kill() // it may have ended just now
	}
	<-r.ended
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

// journal keeps what a program writes. Safe for concurrent use.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

// Write appends to the journal.
func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.text.Len() > 1<<20 { // a soak is long
		j.text.Reset()
	}
	return j.text.Write(p)
}

// tail returns the last n lines.
func (j *journal) tail(n int) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	lines := strings.Split(strings.TrimSuffix(j.text.String(), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// freeAddresses returns different loopback addresses that nothing listens on.
func freeAddresses(t *testing.T, n int) []string {
	t.Helper()
	addresses := make([]string, n)
	for i := range addresses {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatalf("find a free port: %v", err)
		}
		defer l.Close() // all are held until all are found
		addresses[i] = l.Addr().String()
	}
	return addresses
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
