package redistest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ratelimitd/ratelimitd/internal/programtest"
)

func TestStartsEveryShapeOfASingleServer(t *testing.T) {
	for name, options := range map[string]Options{
		"plain":    {},
		"password": {Password: "secret"},
		"user":     {User: "limiter", Password: "s:e/c@ret"},
		"tls":      {TLS: true},
		"unix":     {Unix: true},
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			s := Start(t, options)
			t.Logf("started in %v at %s", time.Since(began), s.Address)
			s.Do(t, "set", "k", "v")
			if got := s.Do(t, "get", "k"); got != "v" {
				t.Errorf("get k = %v, want v", got)
			}
			if got := s.Keys(t); got != 1 {
				t.Errorf("keys = %d, want 1", got)
			}
			if got := s.Calls(t, "set"); got != 1 {
				t.Errorf("calls of set = %d, want 1", got)
			}
			if name == "plain" {
				return
			}
			bare := s.ClientOptions()
			bare.Username, bare.Password = "", ""
			if bare.TLSConfig != nil {
				bare.TLSConfig = bare.TLSConfig.Clone()
				bare.TLSConfig.Certificates = nil
			}
			client := redis.NewClient(bare)
			defer client.Close()
			if err := client.Set(context.Background(), "k", "v", 0).Err(); err == nil && name != "unix" {
				t.Error("a client without credentials is let in")
			}
		})
	}
}

func TestPauseKillRestart(t *testing.T) {
	s := Start(t, Options{})
	client := s.Client()
	defer client.Close()
	ping := func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
		defer cancel()
		return client.Ping(ctx).Err()
	}

	s.Do(t, "set", "k", "v")
	s.Pause()
	short := s.ClientOptions()
	short.ReadTimeout = 100 * time.Millisecond
	hasty := redis.NewClient(short)
	defer hasty.Close()
	if err := hasty.Ping(context.Background()).Err(); err == nil {
		t.Error("a paused server answers")
	}
	s.Resume()
	if err := ping(); err != nil {
		t.Errorf("after Resume: %v", err)
	}
	s.Kill()
	if _, err := net.Dial("tcp", s.Address); err == nil {
		t.Error("a killed server accepts connections")
	}
	s.Restart(t)
	if got := s.Keys(t); got != 0 {
		t.Errorf("keys after Restart = %d, want 0", got)
	}
}

func TestServerOnAGivenPort(t *testing.T) {
	port := programtest.FreePort(t)
	if s := Start(t, Options{Port: port}); s.Port != port {
		t.Errorf("port = %d, want %d", s.Port, port)
	}
}

func TestSentinelFailsOver(t *testing.T) {
	for name, options := range map[string]Options{"plain": {}, "password and TLS": {Password: "secret", SentinelPassword: "watch", TLS: true}} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			s := StartSentinel(t, options)
			t.Logf("started in %v", time.Since(began))
			old := s.Master(t)
			old.Do(t, "set", "k", "v")
			old.Do(t, "wait", 1, patience.Milliseconds())
			began = time.Now()
			s.Failover(t)
			t.Logf("ordered fail-over in %v", time.Since(began))
			master := s.Master(t)
			if master == old {
				t.Fatal("the master has not changed")
			}
			if got := master.Do(t, "get", "k"); got != "v" {
				t.Errorf("get k at the new master = %v, want v", got)
			}
		})
	}
}

func TestSentinelNoticesADeadMaster(t *testing.T) {
	s := StartSentinel(t, Options{})
	old := s.Master(t)
	began := time.Now()
	old.Kill()
	s.AwaitFailover(t, old)
	t.Logf("fail-over after a crash in %v", time.Since(began))
}

func TestClusterServesAndMovesSlots(t *testing.T) {
	began := time.Now()
	c := StartCluster(t, Options{Password: "secret"})
	t.Logf("started in %v", time.Since(began))
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addresses(), Password: "secret"})
	defer client.Close()
	ctx := context.Background()
	for _, key := range []string{"{a}1", "{a}2", "{b}", "{c}", "{d}", "{e}"} {
		if err := client.Set(ctx, key, "v", 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	slot := c.Slot(t, "{a}1")
	from := c.Owner(t, slot)
	to := (from + 1) % len(c.Masters)
	c.MoveSlot(t, slot, to, func() {
		if got := client.Get(ctx, "{a}1").Val(); got != "v" {
			t.Errorf("half moved: get = %q, want v", got)
		}
	})
	if got := c.Owner(t, slot); got != to {
		t.Errorf("owner after the move = %d, want %d", got, to)
	}
	if got := client.Get(ctx, "{a}2").Val(); got != "v" {
		t.Errorf("moved: get = %q, want v", got)
	}
	if got := c.Keys(t); got != 6 {
		t.Errorf("keys = %d, want 6", got)
	}
}

func TestLeavesNoProcess(t *testing.T) {
	var pid int
	t.Run("inner", func(t *testing.T) { pid = Start(t, Options{}).process.pid() })
	if err := syscall.Kill(pid, 0); err == nil {
		t.Errorf("process %d is still there", pid)
	}
}

// A test binary that is killed runs no cleanup: the kernel ends its servers.
func TestLeavesNoProcessWhenKilled(t *testing.T) {
	const child = "REDISTEST_KILLED_CHILD"
	if os.Getenv(child) != "" {
		fmt.Printf("pid %d\n", Start(t, Options{}).process.pid())
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestLeavesNoProcessWhenKilled$")
	cmd.Env = append(os.Environ(), child+"=1")
	output, err := cmd.Output()
	if err == nil {
		t.Fatal("the child was not killed")
	}
	var pid int
	if _, err := fmt.Sscanf(string(output), "pid %d", &pid); err != nil {
		t.Fatalf("the child printed %q", output)
	}
	waitFor(t, "the server is gone", func() bool { return syscall.Kill(pid, 0) != nil || zombie(pid) })
}

// zombie reports whether a process has ended and only waits to be reaped, as
// in a container whose first process reaps nobody.
func zombie(pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	return err != nil || strings.Contains(string(status), "State:\tZ")
}
