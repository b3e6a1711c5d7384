package integration

import (
	"bufio"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ratelimitd/ratelimitd/internal/programtest"
)

// The life of a pod of deploy/k8s, with the Redis of deploy/k8s: it comes up before Redis, loses and finds it, sees its
// policies change, and is told to stop. At each step the probes tell Kubernetes what is true.
func TestLifeOfAPod(t *testing.T) {
	all := buildManifests(t)
	redisAddress := programtest.FreeAddress(t)
	p, here := newServerPod(t, all, redisAddress)
	p.start(t, ratelimitdPath, here)
	probes := func(wantAlive, wantReady bool) func() bool {
		return func() bool {
			return p.passes(t, p.c.LivenessProbe) == wantAlive && p.passes(t, p.c.ReadinessProbe) == wantReady
		}
	}

	waitFor(t, 10*time.Second, "the pod to be alive and not ready without Redis", probes(true, false))
	redisPod := startRedisPod(t, all, redisAddress)
	waitFor(t, 10*time.Second, "the pod to be ready with Redis", probes(true, true))
	if got, want := p.metric(t, "go_gc_gomemlimit_bytes"), float64(p.quantity(t, p.c.Resources.Requests["memory"])); got != want {
		t.Errorf("Go's memory limit is %v, want %v", got, want)
	}

	// The limit of an address, as it is and after a change of the ConfigMap.
	awayFromBoundary(t, time.Minute)
	if got := p.ask(t); !strings.Contains(got, `"requestsPerUnit":600`) {
		t.Errorf("before the change: %s", got)
	}
	waitFor(t, 10*time.Second, "Redis to have two keys, the count of the request and the replicas", func() bool { return redisKeys(t, redisPod) == 2 })
	policies := maps.Clone(all.find(t, "ConfigMap", "ratelimitd-policies").Data)
	policies["edge.yaml"] = strings.Replace(policies["edge.yaml"], "requests_per_unit: 600", "requests_per_unit: 601", 1)
	layVolume(t, p.volumes[p.c.value(t, "RATELIMITD_POLICIES")], policies)
	waitFor(t, 5*time.Second, "the changed ConfigMap to be in force", func() bool { return strings.Contains(p.ask(t), `"requestsPerUnit":601`) })
	if got := p.metric(t, "ratelimitd_config_last_load_successful"); got != 1 {
		t.Errorf("ratelimitd_config_last_load_successful is %v", got)
	}

	redisPod.Kill()
	time.Sleep(500 * time.Millisecond)
	if !probes(true, true)() {
		t.Error("a failure of Redis makes the pod unready, or kills it")
	}
	if got := p.ask(t); !strings.Contains(got, `"overallCode":"OK"`) {
		t.Errorf("without Redis, with on_store_error: allow: %s", got)
	}

	if err := p.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	waitFor(t, time.Second, "the stopping pod to say so", func() bool { return !p.passes(t, p.c.ReadinessProbe) })
	if got := p.ask(t); !strings.Contains(got, `"overallCode":"OK"`) {
		t.Errorf("while it drains: %s", got)
	}
	waitFor(t, 10*time.Second, "the pod to end", func() bool { return !p.Running() })
	if !p.Cmd.ProcessState.Success() {
		t.Errorf("the pod ended with %v", p.Cmd.ProcessState)
	}
}

// question is that of the example in deploy/k8s/README.md.
const question = `{"domain": "edge", "descriptors": [{"entries": [{"key": "masked_remote_address", "value": "192.0.2.7/32"}]}]}`

// ask asks the question, and returns the answer.
func (p *pod) ask(t *testing.T) string {
	t.Helper()
	resp, err := http.Post("http://"+p.at(t, "http")+"/json", "application/json", strings.NewReader(question))
	return bodyOf(t, resp, err)
}

// metric returns the value of a metric, named with its labels, asked where the annotations tell Prometheus to.
func (p *pod) metric(t *testing.T, name string) float64 {
	t.Helper()
	resp, err := http.Get("http://" + p.at(t, "http") + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if text, found := strings.CutPrefix(lines.Text(), name+" "); found {
			value, err := strconv.ParseFloat(text, 64)
			if err != nil {
				t.Fatal(err)
			}
			return value
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}

// The Redis of deploy/k8s asks for the password, never drops a counter, and leaves room for itself below the pod's limit.
func TestRedisPod(t *testing.T) {
	p := startRedisPod(t, buildManifests(t), programtest.FreeAddress(t))
	if !p.passes(t, p.c.LivenessProbe) {
		t.Error("it is not alive")
	}
	nobody := redis.NewClient(&redis.Options{Addr: p.at(t, "redis"), MaxRetries: -1})
	defer nobody.Close()
	if err := nobody.Ping(t.Context()).Err(); err == nil || !strings.Contains(err.Error(), "NOAUTH") {
		t.Errorf("without a password: %v", err)
	}
	client := p.redis(t)
	got, err := client.ConfigGet(t.Context(), "maxmemory*").Result()
	if err != nil {
		t.Fatal(err)
	}
	if got["maxmemory-policy"] != "noeviction" {
		t.Errorf("maxmemory-policy is %s", got["maxmemory-policy"])
	}
	most, err := strconv.ParseInt(got["maxmemory"], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	if limit := p.quantity(t, p.c.Resources.Limits["memory"]); most == 0 || most > limit*8/10 {
		t.Errorf("Redis may take %d bytes of %d", most, limit)
	}
}

// redis returns a client of a Redis, with the password.
func (p *pod) redis(t *testing.T) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: p.at(t, "redis"), Password: p.secret["password"], MaxRetries: -1})
	t.Cleanup(func() { client.Close() })
	return client
}

func redisKeys(t *testing.T, p *pod) int64 {
	t.Helper()
	n, err := p.redis(t).DBSize(t.Context()).Result()
	if err != nil {
		t.Fatal(fmt.Errorf("count the keys of Redis: %w", err))
	}
	return n
}
