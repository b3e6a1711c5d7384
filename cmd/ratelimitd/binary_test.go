package main

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ratelimitd/ratelimitd/internal/programtest"
)

// binary is the program as it is delivered, built once for all tests.
var binary string

func TestMain(m *testing.M) { os.Exit(programtest.Main(m, &binary, false)) }

// command returns the program with an environment of its own, in a folder of
// its own.
func command(t *testing.T, environment []string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, args...)
	cmd.Dir = t.TempDir()
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + cmd.Dir}, environment...)
	return cmd
}

// TestTheCommandLine runs the binary and compares all that it prints.
func TestTheCommandLine(t *testing.T) {
	good, bad := t.TempDir(), t.TempDir()
	write(t, good+"/a.yaml", policy("3"))
	write(t, good+"/b.yaml", "domain: u\ndescriptors: [{key: a}, {key: b, rate_limit: {unlimited: true}}]\n")
	write(t, good+"/.c.yaml.swp", "no policy")
	write(t, bad+"/a.yaml", "domain: t\ndescriptors:\n  - key: a\n    rate_limit: {unit: minit, requests_per_unit: 3}\n")
	write(t, bad+"/b.yaml", "domain: u\nunlimied: true\n")
	for _, test := range []struct {
		name        string
		environment []string
		args        []string
		code        int
		out, err    string // a regular expression where it begins with ^
	}{
		{
			"version", nil, []string{"version"}, 0,
			`^ratelimitd \S+ ` + regexp.QuoteMeta(runtime.Version()+" "+runtime.GOOS+"/"+runtime.GOARCH) + `\n$`, "",
		},
		{
			"check", nil, []string{"check", good}, 0,
			`^` + good + `: files 2, domains 2, limits 1, revision [0-9a-f]+\n  t: rules 1\n  u: rules 2\n$`, "",
		},
		{
			"check finds every error", nil, []string{"check", bad}, 1, "",
			`^a.yaml:4:\d+: descriptors\[0\].rate_limit.unit: "minit" [^\n]+\nb.yaml:2:1: unlimied: [^\n]+\n$`,
		},
		{"check of nothing", nil, []string{"check", "/no/such"}, 1, "", `^[^\n]*/no/such: no such file or directory\n$`},
		{"check without a directory", nil, []string{"check"}, 1, "", "check takes one directory, not 0\n"},
		{"check of an empty directory", nil, []string{"check", "."}, 1, "", "no policy files (*.yaml, *.yml) in .\n"},
		{"check with other counting", nil, []string{"check", good, "--counting=exact"}, 1, "", `--counting: "exact" is not one of precise, reference` + "\n"},
		{"check needs no settings", []string{"RATELIMITD_STOR=x"}, []string{"check", good, "--counting=reference"}, 0, "^.*", ""},
		{"an unknown command", nil, []string{"server"}, 1, "", `^unknown command "server" for "ratelimitd"\n\nDid you mean this\?\n\tserve\n`},
		{"version as a flag", nil, []string{"--version"}, 0, `^ratelimitd \S+ go[^\n]+\n$`, ""},
		{"help", nil, nil, 0, `^A global rate limit service for Envoy\n\nUsage:`, ""},
		{"help of serve", nil, []string{"serve", "--help"}, 0, `^Answer rate limit requests[\s\S]+--redis-url url[\s\S]+In the environment: RATELIMITD_REDIS_URL`, ""},
		{"help by name", nil, []string{"help", "serve"}, 0, `^Answer rate limit requests[\s\S]+--policies`, ""},
		{
			"serve with bad settings", []string{"RATELIMITD_STORE=rediss", "RATELIMITD_POLICYS=/etc"}, []string{"serve", "--log-format", "xml", "--polcies=/etc"}, 1, "",
			"RATELIMITD_POLICYS: is not a setting; did you mean RATELIMITD_POLICIES?\n--polcies: is not a flag; did you mean --policies?\n" +
				"RATELIMITD_STORE: \"rediss\" is not one of memory, redis, memcached; did you mean redis?\n--log-format: \"xml\" is not one of text, json\n",
		},
		{
			"serve with admin pages for everybody", nil, []string{"serve", "--admin-address=0.0.0.0:0"}, 1, "",
			`^admin_address: 0\.0\.0\.0:0 is not on loopback, so anybody could see the admin pages [^\n]+\n$`,
		},
		{"serve with an argument", nil, []string{"serve", "now"}, 1, "", "command line: unexpected now\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			cmd := command(t, test.environment, test.args...)
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			_ = cmd.Run()
			if code := cmd.ProcessState.ExitCode(); code != test.code {
				t.Errorf("exit code %d, want %d", code, test.code)
			}
			compare(t, "standard output", stdout.String(), test.out)
			compare(t, "standard error", stderr.String(), test.err)
		})
	}
}

func compare(t *testing.T, what, got, want string) {
	t.Helper()
	if expression, ok := strings.CutPrefix(want, "^"); ok {
		if !regexp.MustCompile("^" + expression).MatchString(got) {
			t.Errorf("%s:\n%s\ndoes not match\n%s", what, got, want)
		}
	} else if got != want {
		t.Errorf("%s:\n%s\nwant\n%s", what, got, want)
	}
}

// free returns an address that nothing listens on.
func free(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// serve starts the binary and returns it with the address of its HTTP pages.
func serve(t *testing.T, environment ...string) (*programtest.Process, string) {
	t.Helper()
	address := free(t)
	return programtest.Start(t, command(t, append([]string{
		"RATELIMITD_GRPC_ADDRESS=" + free(t), "RATELIMITD_HTTP_ADDRESS=" + address, "RATELIMITD_ADMIN_ADDRESS=off", "RATELIMITD_DRAIN_DELAY=0s",
	}, environment...), "serve")), address
}

func healthcheck(address string) int {
	response, err := http.Get("http://" + address + "/healthcheck")
	if err != nil {
		return 0
	}
	response.Body.Close()
	return response.StatusCode
}

func TestServeInAPod(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/a.yaml", policy("3"))
	p, address := serve(t, "RATELIMITD_POLICIES="+dir, "RATELIMITD_LOG_FORMAT=json",
		"RATELIMITD_PORT=tcp://10.0.0.1:8081", "RATELIMITD_SERVICE_HOST=10.0.0.1", "RATELIMITD_SERVICE_PORT=8081",
		"RATELIMITD_SERVICE_PORT_GRPC=8081", "RATELIMITD_PORT_8081_TCP=tcp://10.0.0.1:8081", "RATELIMITD_PORT_8081_TCP_ADDR=10.0.0.1",
		"RATELIMITD_PORT_8081_TCP_PORT=8081", "RATELIMITD_PORT_8081_TCP_PROTO=tcp")
	eventually(t, "ready", func() bool { return healthcheck(address) == 200 })
	p.Terminate(t, 20*time.Second)
	for line := range strings.SplitSeq(strings.TrimSpace(p.Log.String()), "\n") {
		if !strings.HasPrefix(line, `{"time":`) {
			t.Errorf("a line of the log is no JSON: %s", line)
		}
	}
}

// TestCheckEndsAtTheFirstSignal, while it is busy with a file that takes it
// seconds.
func TestCheckEndsAtTheFirstSignal(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/a.yaml", "domain: t\ndescriptors: ["+strings.Repeat("a,", 8_000_000)+"]\n")
	cmd := command(t, nil, "check", "--policies-max-size=20000000", dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it has read the file", func() bool { return resident(t, cmd.Process.Pid) > 100<<20 })
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	err := cmd.Wait()
	if status := cmd.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != os.Interrupt {
		t.Errorf("it ended with %v", err)
	}
}

// resident is the memory that a process takes, in bytes.
func resident(t *testing.T, pid int) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		t.Fatal(err)
	}
	var size, pages int64
	if _, err := fmt.Sscan(string(text), &size, &pages); err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

// TestHangup: SIGHUP ends nothing, not even in the middle of a stop.
func TestHangup(t *testing.T) {
	p, address := serve(t, "RATELIMITD_DRAIN_DELAY=300ms")
	eventually(t, "ready", func() bool { return healthcheck(address) == 200 })
	for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGTERM, syscall.SIGHUP} {
		p.Signal(s)
		time.Sleep(100 * time.Millisecond)
	}
	<-p.Ended
	if !p.Cmd.ProcessState.Success() || !strings.Contains(p.Log.String(), "msg=stopped") {
		t.Errorf("it ended with %v", p.Cmd.ProcessState)
	}
}

func TestASecondSignalEndsItAtOnce(t *testing.T) {
	p, address := serve(t, "RATELIMITD_DRAIN_DELAY=1h")
	eventually(t, "ready", func() bool { return healthcheck(address) == 200 })
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		p.Signal(s)
		eventually(t, "the signal is heard", func() bool { return healthcheck(address) != 200 })
	}
	begin := time.Now()
	<-p.Ended
	if p.Cmd.ProcessState.Success() || time.Since(begin) > time.Second {
		t.Errorf("after %v: %v", time.Since(begin), p.Cmd.ProcessState)
	}
}

// TestASignalAtAnyMomentOfTheStart: it ends by itself, either with 0 or, before
// it listens to signals, as any program does.
func TestASignalAtAnyMomentOfTheStart(t *testing.T) {
	for delay := time.Duration(0); delay < 60*time.Millisecond; delay += 4 * time.Millisecond {
		p, _ := serve(t)
		time.Sleep(delay)
		if !p.End(5 * time.Second) {
			t.Fatalf("a signal %v after the start: it still runs", delay)
		}
		status := p.Cmd.ProcessState.Sys().(syscall.WaitStatus)
		if status != 0 && (!status.Signaled() || strings.Contains(p.Log.String(), "listening")) {
			t.Errorf("a signal %v after the start: %v\n%s", delay, p.Cmd.ProcessState, p.Log)
		}
	}
}
